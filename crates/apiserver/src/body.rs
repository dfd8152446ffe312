//! Bodies of responses: bytes that are shared, never copied per client, and streams of them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use http_body::{Frame, SizeHint};

/// Small pieces are sent together, in frames of about this size: copying a kilobyte is cheaper
/// than a frame of its own.
const FRAME: usize = 64 << 10;

/// The body of a response.
pub struct Body(Content);

enum Content {
    /// Known in full; sent piece by piece.
    Pieces { pieces: VecDeque<Bytes>, left: u64 },
    /// The same, compressed on the way.
    Gzip {
        pieces: VecDeque<Bytes>,
        encoder: Option<GzEncoder<Vec<u8>>>,
    },
    /// Goes on until its end: a watch.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

// === impl Body ===

impl Body {
    /// No content.
    pub fn empty() -> Self {
        Self::pieces(VecDeque::new())
    }

    /// These pieces, one after the other.
    pub fn pieces(pieces: VecDeque<Bytes>) -> Self {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self(Content::Pieces { pieces, left })
    }

    /// The same content, compressed; a stream stays as it is.
    #[must_use]
    pub fn gzip(self) -> Self {
        match self.0 {
            Content::Pieces { pieces, .. } => {
                let encoder = GzEncoder::new(Vec::with_capacity(FRAME), Compression::fast());
                Self(Content::Gzip {
                    pieces,
                    encoder: Some(encoder),
                })
            }
            content @ (Content::Gzip { .. } | Content::Stream(_)) => Self(content),
        }
    }

    /// Whatever the stream yields.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Content::Stream(Box::pin(stream)))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::pieces(VecDeque::from([bytes]))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Content::Pieces { pieces, left } => {
                let frame = next_frame(pieces);
                *left -= frame.as_ref().map_or(0, |frame| frame.len() as u64);
                Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
            }
            Content::Gzip { pieces, encoder } => {
                Poll::Ready(next_compressed(pieces, encoder).map(|frame| Ok(Frame::data(frame))))
            }
            Content::Stream(stream) => stream
                .as_mut()
                .poll_next(cx)
                .map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Content::Pieces { pieces, .. } if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Pieces { left, .. } => SizeHint::with_exact(*left),
            Content::Gzip { .. } | Content::Stream(_) => SizeHint::default(),
        }
    }
}

/// The next pieces as one frame.
fn next_frame(pieces: &mut VecDeque<Bytes>) -> Option<Bytes> {
    let first = pieces.pop_front()?;
    if first.len() >= FRAME || pieces.is_empty() {
        return Some(first);
    }
    let mut frame = Vec::with_capacity(FRAME + first.len());
    frame.extend_from_slice(&first);
    while frame.len() < FRAME
        && let Some(piece) = pieces.pop_front()
    {
        frame.extend_from_slice(&piece);
    }
    Some(frame.into())
}

/// The next compressed bytes; none when all is sent.
fn next_compressed(
    pieces: &mut VecDeque<Bytes>,
    encoder: &mut Option<GzEncoder<Vec<u8>>>,
) -> Option<Bytes> {
    let writing = encoder.as_mut()?;
    while let Some(piece) = pieces.pop_front() {
        writing
            .write_all(&piece)
            .expect("writing to memory does not fail");
        if writing.get_ref().len() >= FRAME {
            return Some(std::mem::take(writing.get_mut()).into());
        }
    }
    let rest = encoder
        .take()?
        .finish()
        .expect("writing to memory does not fail");
    Some(rest.into())
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn collect(body: Body) -> Vec<u8> {
        match body.collect().await {
            Ok(collected) => collected.to_bytes().to_vec(),
            Err(never) => match never {},
        }
    }

    #[tokio::test]
    async fn pieces_arrive_whole_plain_and_compressed() {
        use std::io::Read;
        let pieces: VecDeque<Bytes> = (0..5_000).map(|i| Bytes::from(format!("{i},"))).collect();
        let expected: Vec<u8> = pieces.iter().flatten().copied().collect();
        assert_eq!(collect(Body::pieces(pieces.clone())).await, expected);
        let compressed = collect(Body::pieces(pieces).gzip()).await;
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(compressed.as_slice())
            .read_to_end(&mut plain)
            .unwrap();
        assert_eq!(plain, expected);
    }
}
