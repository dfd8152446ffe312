//! Bodies of responses: bytes that are shared, never copied per client, and streams of them.

mod indent;
mod pieces;

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use http_body::{Frame, SizeHint};

use self::indent::Indenter;
pub use self::pieces::Pieces;

/// Compressed and indented bytes are sent in frames of about this size.
const FRAME: usize = 64 << 10;

/// The body of a response.
pub struct Body(Content);

enum Content {
    /// Known in full.
    Whole(Pieces),
    /// The same, compressed on the way.
    Gzip {
        pieces: Pieces,
        encoder: Option<GzEncoder<Vec<u8>>>,
    },
    /// The same, laid out for people on the way.
    Indented { pieces: Pieces, indenter: Indenter },
    /// Goes on until its end: a watch.
    Stream(Pin<Box<dyn Stream<Item = Pieces> + Send>>),
}

// === impl Body ===

impl Body {
    /// No content.
    pub fn empty() -> Self {
        Self(Content::Whole(Pieces::default()))
    }

    /// The same content, compressed; a stream stays as it is.
    #[must_use]
    pub fn gzip(self) -> Self {
        match self.0 {
            Content::Whole(pieces) => {
                let encoder = GzEncoder::new(Vec::with_capacity(FRAME), Compression::fast());
                Self(Content::Gzip {
                    pieces,
                    encoder: Some(encoder),
                })
            }
            content @ (Content::Gzip { .. } | Content::Indented { .. } | Content::Stream(_)) => {
                Self(content)
            }
        }
    }

    /// The same JSON, laid out for people; a stream stays as it is.
    #[must_use]
    pub fn indented(self) -> Self {
        match self.0 {
            Content::Whole(pieces) => Self(Content::Indented {
                pieces,
                indenter: Indenter::default(),
            }),
            content @ (Content::Gzip { .. } | Content::Indented { .. } | Content::Stream(_)) => {
                Self(content)
            }
        }
    }

    /// Whatever the stream yields.
    pub fn stream(stream: impl Stream<Item = Pieces> + Send + 'static) -> Self {
        Self(Content::Stream(Box::pin(stream)))
    }
}

impl From<Pieces> for Body {
    fn from(pieces: Pieces) -> Self {
        Self(Content::Whole(pieces))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Pieces::from(bytes).into()
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl http_body::Body for Body {
    type Data = Pieces;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Pieces>, Infallible>>> {
        let next = match &mut self.0 {
            // In one frame: what it holds is shared, so nothing is gained by parts of it.
            Content::Whole(pieces) => match pieces.has_remaining() {
                true => Some(std::mem::take(pieces)),
                false => None,
            },
            Content::Gzip { pieces, encoder } => next_compressed(pieces, encoder).map(Pieces::from),
            Content::Indented { pieces, indenter } => {
                next_indented(pieces, indenter).map(Pieces::from)
            }
            Content::Stream(stream) => match stream.as_mut().poll_next(cx) {
                Poll::Ready(next) => next,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(next.map(|pieces| Ok(Frame::data(pieces))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Content::Whole(pieces) if !pieces.has_remaining())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(pieces) => SizeHint::with_exact(pieces.remaining() as u64),
            Content::Gzip { .. } | Content::Indented { .. } | Content::Stream(_) => {
                SizeHint::default()
            }
        }
    }
}

/// The next compressed bytes; none when all is sent.
fn next_compressed(pieces: &mut Pieces, encoder: &mut Option<GzEncoder<Vec<u8>>>) -> Option<Bytes> {
    let writing = encoder.as_mut()?;
    while pieces.has_remaining() {
        let chunk = pieces.chunk();
        writing
            .write_all(chunk)
            .expect("writing to memory does not fail");
        let size = chunk.len();
        pieces.advance(size);
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

/// The next bytes laid out; none when all is sent.
fn next_indented(pieces: &mut Pieces, indenter: &mut Indenter) -> Option<Bytes> {
    let mut out = Vec::new();
    while pieces.has_remaining() && out.len() < FRAME {
        let chunk = pieces.chunk();
        let chunk = &chunk[..chunk.len().min(FRAME)];
        indenter.push(chunk, &mut out);
        let size = chunk.len();
        pieces.advance(size);
    }
    (!out.is_empty()).then(|| out.into())
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
        let texts: Vec<String> = (0..5_000).map(|i| format!("{i},")).collect();
        let expected: Vec<u8> = texts.concat().into_bytes();
        let pieces = || {
            let mut pieces = Pieces::default();
            for text in &texts {
                pieces.push(Bytes::from(text.clone()));
            }
            Body::from(pieces)
        };
        assert_eq!(collect(pieces()).await, expected);
        let compressed = collect(pieces().gzip()).await;
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(compressed.as_slice())
            .read_to_end(&mut plain)
            .unwrap();
        assert_eq!(plain, expected);
    }
}
