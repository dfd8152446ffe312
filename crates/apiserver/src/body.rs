//! Bodies of responses: bytes that are shared, never copied per client, and streams of them.

mod indent;
mod pieces;

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt as _};
use http_body::{Frame, SizeHint};

use crate::flow::AnswerMemory;

use self::indent::Indenter;
pub use self::pieces::Pieces;

/// Compressed, indented and rendered bytes are sent in frames of about this size.
const FRAME: usize = 64 << 10;

/// Rendered bodies up to about this size are rendered before the answer begins, so that its length
/// is known; of larger ones this much is ahead of the client at first.
pub(crate) const RENDERED_AHEAD: usize = 128 << 10;

/// The body of a response.
pub struct Body(Content);

enum Content {
    /// Known in full, or rendered as the client reads.
    Plain(Source),
    /// The same, compressed on the way.
    Gzip {
        source: Source,
        encoder: Option<GzEncoder<Vec<u8>>>,
    },
    /// The same, laid out for people on the way.
    Indented { source: Source, indenter: Indenter },
    /// Goes on until its end: a watch.
    Stream(Pin<Box<dyn Stream<Item = Pieces> + Send>>),
}

/// The result of encoding a body anew.
pub(crate) enum Converted {
    Whole(Body),
    Stream(Body),
    /// It is as it was.
    Not(Body),
}

/// Bytes that are ready, and those that are rendered when they are gone.
#[derive(Default)]
struct Source {
    ready: Pieces,
    rest: Option<Box<dyn Iterator<Item = Pieces> + Send>>,
    /// The bytes are no others'.
    is_rendered: bool,
    /// Counts them for their user.
    memory: Option<Arc<AnswerMemory>>,
}

// === impl Body ===

impl Body {
    /// No content.
    pub fn empty() -> Self {
        Self(Content::Plain(Source::default()))
    }

    /// Parts that cost memory of their own, and are therefore rendered as the client reads: a
    /// client that does not read holds no more of them than [`RENDERED_AHEAD`] and one part.
    pub(crate) fn rendered(parts: impl Iterator<Item = Pieces> + Send + 'static) -> Self {
        let mut source = Source {
            rest: Some(Box::new(parts)),
            is_rendered: true,
            ..Source::default()
        };
        source.fill(RENDERED_AHEAD);
        Self(Content::Plain(source))
    }

    /// How many bytes of its own it holds while its client does not read.
    pub(crate) fn rendered_bytes(&self) -> usize {
        match &self.0 {
            Content::Plain(source)
            | Content::Gzip { source, .. }
            | Content::Indented { source, .. } => source.rendered_bytes(),
            Content::Stream(_) => 0,
        }
    }

    /// Counts these bytes for their user until the body and all that was taken of it are dropped.
    pub(crate) fn count(&mut self, memory: AnswerMemory) {
        match &mut self.0 {
            Content::Plain(source)
            | Content::Gzip { source, .. }
            | Content::Indented { source, .. } => source.memory = Some(Arc::new(memory)),
            Content::Stream(_) => {}
        }
    }

    /// The same content, compressed; a stream stays as it is.
    #[must_use]
    pub fn gzip(self) -> Self {
        match self.0 {
            Content::Plain(source) => {
                let encoder = GzEncoder::new(Vec::with_capacity(FRAME), Compression::fast());
                Self(Content::Gzip {
                    source,
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
            Content::Plain(source) => Self(Content::Indented {
                source,
                indenter: Indenter::default(),
            }),
            content @ (Content::Gzip { .. } | Content::Indented { .. } | Content::Stream(_)) => {
                Self(content)
            }
        }
    }

    /// The same content in another encoding: what is known in full by `whole`, if that can be
    /// done, and the frames of a stream by `frame`. Others stay as they are.
    pub(crate) fn converted(
        self,
        whole: fn(&[u8]) -> Option<Vec<u8>>,
        frame: fn(&[u8]) -> Vec<u8>,
    ) -> Converted {
        match self.0 {
            Content::Plain(mut source) if source.rest.is_none() => {
                let bytes = source.ready.copy_to_bytes(source.ready.remaining());
                match whole(&bytes) {
                    Some(converted) => Converted::Whole(converted.into()),
                    None => Converted::Not(bytes.into()),
                }
            }
            Content::Stream(stream) => {
                Converted::Stream(Self::stream(stream.map(move |mut pieces| {
                    let bytes = pieces.copy_to_bytes(pieces.remaining());
                    Pieces::from(Bytes::from(frame(&bytes)))
                })))
            }
            content @ (Content::Plain(_) | Content::Gzip { .. } | Content::Indented { .. }) => {
                Converted::Not(Self(content))
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
        Self(Content::Plain(Source {
            ready: pieces,
            ..Source::default()
        }))
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
            Content::Plain(source) => source.next_frame().map(|frame| source.counted(frame)),
            Content::Gzip { source, encoder } => {
                let frame = next_compressed(source, encoder).map(Pieces::from);
                frame.map(|frame| source.counted(frame))
            }
            Content::Indented { source, indenter } => {
                let frame = next_indented(source, indenter).map(Pieces::from);
                frame.map(|frame| source.counted(frame))
            }
            Content::Stream(stream) => match stream.as_mut().poll_next(cx) {
                Poll::Ready(next) => next,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(next.map(|pieces| Ok(Frame::data(pieces))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Content::Plain(source) if source.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Plain(source) => source.size_hint(),
            Content::Gzip { .. } | Content::Indented { .. } | Content::Stream(_) => {
                SizeHint::default()
            }
        }
    }
}

// === impl Source ===

impl Source {
    fn rendered_bytes(&self) -> usize {
        if self.is_rendered {
            self.ready.remaining()
        } else {
            0
        }
    }

    /// A frame of it, which is counted like the rest.
    fn counted(&self, mut frame: Pieces) -> Pieces {
        if let Some(memory) = &self.memory {
            frame.count(memory);
        }
        frame
    }

    /// Renders until there are `bytes` ready, or nothing is left to render.
    fn fill(&mut self, bytes: usize) {
        while self.ready.remaining() < bytes
            && let Some(rest) = &mut self.rest
        {
            match rest.next() {
                Some(part) => self.ready.append(part),
                None => self.rest = None,
            }
        }
    }

    /// All that is ready in one frame: it is shared or there already, so nothing is gained by
    /// parts of it.
    fn next_frame(&mut self) -> Option<Pieces> {
        if !self.ready.has_remaining() {
            self.fill(FRAME);
        }
        self.ready
            .has_remaining()
            .then(|| std::mem::take(&mut self.ready))
    }

    /// The next bytes, at most `limit` of them; none at the end. They stay until
    /// [`Source::advance`].
    fn chunk(&mut self, limit: usize) -> Option<&[u8]> {
        self.fill(1);
        let chunk = self.ready.chunk();
        let chunk = &chunk[..chunk.len().min(limit)];
        (!chunk.is_empty()).then_some(chunk)
    }

    fn advance(&mut self, count: usize) {
        self.ready.advance(count);
    }

    fn is_empty(&self) -> bool {
        self.rest.is_none() && !self.ready.has_remaining()
    }

    fn size_hint(&self) -> SizeHint {
        let ready = self.ready.remaining() as u64;
        let mut hint = SizeHint::with_exact(ready);
        if self.rest.is_some() {
            hint = SizeHint::new();
            hint.set_lower(ready);
        }
        hint
    }
}

/// The next compressed bytes; none when all is sent.
fn next_compressed(source: &mut Source, encoder: &mut Option<GzEncoder<Vec<u8>>>) -> Option<Bytes> {
    let writing = encoder.as_mut()?;
    while let Some(chunk) = source.chunk(usize::MAX) {
        writing
            .write_all(chunk)
            .expect("writing to memory does not fail");
        let size = chunk.len();
        source.advance(size);
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
fn next_indented(source: &mut Source, indenter: &mut Indenter) -> Option<Bytes> {
    let mut out = Vec::new();
    while out.len() < FRAME
        && let Some(chunk) = source.chunk(FRAME)
    {
        indenter.push(chunk, &mut out);
        let size = chunk.len();
        source.advance(size);
    }
    (!out.is_empty()).then(|| out.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body::Body as _;
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

    /// A rendered body of `count` parts of one kilobyte, and how many of them were rendered.
    fn kilobytes(count: usize) -> (Body, Arc<AtomicUsize>) {
        let rendered = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&rendered);
        let parts = (0..count).map(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Pieces::from(Bytes::from(vec![b'1'; 1024]))
        });
        (Body::rendered(parts), rendered)
    }

    #[tokio::test]
    async fn parts_are_rendered_as_they_are_read() {
        let (mut body, rendered) = kilobytes(1000);
        let ahead = RENDERED_AHEAD / 1024;
        assert_eq!(rendered.load(Ordering::Relaxed), ahead);
        assert_eq!(body.size_hint().lower(), RENDERED_AHEAD as u64);
        assert_eq!(body.size_hint().exact(), None);
        for frames in 0..3 {
            body.frame().await.expect("it goes on").expect("data");
            let expected = ahead + frames * FRAME / 1024;
            assert_eq!(rendered.load(Ordering::Relaxed), expected);
        }
        for form in [Body::gzip, Body::indented] {
            let (body, rendered) = kilobytes(1000);
            let mut body = form(body);
            assert_eq!(rendered.load(Ordering::Relaxed), ahead);
            body.frame().await.expect("it goes on").expect("data");
            drop(body);
        }
        let (body, rendered) = kilobytes(1000);
        let collected = collect(body).await;
        assert_eq!(
            (collected.len(), rendered.load(Ordering::Relaxed)),
            (1_024_000, 1000)
        );
    }

    #[tokio::test]
    async fn what_is_rendered_at_once_has_a_length() {
        let (body, _) = kilobytes(3);
        assert_eq!(body.size_hint().exact(), Some(3 * 1024));
        assert!(!body.is_end_stream());
        assert_eq!(collect(body).await.len(), 3 * 1024);
    }
}
