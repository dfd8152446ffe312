//! A body as lines, without copying a line that came in one piece.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;

/// The lines of a body that may never end.
#[derive(Debug)]
pub(super) struct Lines {
    body: Body,
    /// What was read and not yet given out.
    chunk: Bytes,
    /// The start of a line whose end has not come yet.
    partial: BytesMut,
    any: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("failed to read: {0}")]
    Read(Box<kube::Error>),
    #[error("a line is longer than {MAX_LINE} bytes")]
    TooLong,
}

/// Far more than an object may have.
const MAX_LINE: usize = 64 << 20;

// === impl Lines ===

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            chunk: Bytes::new(),
            partial: BytesMut::new(),
            any: false,
        }
    }

    /// Whether there was a line yet.
    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// The next line if it has come already.
    pub(super) fn buffered(&mut self) -> Option<Bytes> {
        while let Some(end) = self.chunk.iter().position(|byte| *byte == b'\n') {
            let mut line = self.chunk.split_to(end + 1);
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(&line);
                line = self.partial.split().freeze();
            }
            line.truncate(line.len() - 1);
            if !line.is_empty() {
                self.any = true;
                return Some(line);
            }
        }
        self.partial.extend_from_slice(&self.chunk);
        self.chunk.clear();
        None
    }

    /// The next line, or `None` at the end; a last line without its end is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, LineError> {
        loop {
            if let Some(line) = self.buffered() {
                return Ok(Some(line));
            }
            if self.partial.len() > MAX_LINE {
                return Err(LineError::TooLong);
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => self.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(LineError::Read(Box::new(error))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http::{Request, Response};
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    /// A body in these pieces, as a client gets it from a server.
    async fn body(pieces: &'static [&'static str]) -> Body {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let frames = pieces
                .iter()
                .map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
            let frames: Vec<Result<_, Infallible>> = frames.collect();
            Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
        });
        let client = kube::Client::new(service, "default");
        let response = client.send(Request::new(Body::empty())).await;
        response.expect("it never fails").into_body()
    }

    async fn check(pieces: &'static [&'static str], expected: &[&str]) {
        let mut lines = Lines::new(body(pieces).await);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.expect("readable") {
            read.push(String::from_utf8(line.to_vec()).expect("text"));
        }
        assert_eq!(read, expected, "{pieces:?}");
        assert_eq!(lines.any(), !expected.is_empty());
    }

    #[tokio::test]
    async fn lines_are_put_together() {
        check(&[], &[]).await;
        check(&["one\n", "two\n"], &["one", "two"]).await;
        check(&["one\ntwo\nth", "ree\n"], &["one", "two", "three"]).await;
        check(&["o", "n", "e", "\n", "\n", "two\n"], &["one", "two"]).await;
        check(&["one\ncut off"], &["one"]).await;
    }
}
