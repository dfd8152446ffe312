//! Bodies of responses: bytes that are shared, never copied per client, and streams of them.
//!
//! Invariants: bytes that were rendered for one client are counted for its user from when they are
//! rendered until the client has taken them; of such a body one frame is on its way at a time, and
//! what cannot be counted is broken off, so that no answer looks complete that is not.

mod delivery;
mod indent;
mod pieces;

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use deltaplane_runtime::TransitMonitor;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt as _};
use http_body::{Frame, SizeHint};

use crate::flow::{AnswerMemory, AnswerShare};

use self::delivery::Delivery;
use self::indent::Indenter;
pub use self::pieces::Pieces;

/// Compressed, indented and rendered bytes are sent in frames of about this size.
const FRAME: usize = 64 << 10;

/// Rendered bodies up to about this size are rendered before the answer begins, so that its length
/// is known; of larger ones this much is ahead of the client at first.
pub(crate) const RENDERED_AHEAD: usize = 64 << 10;

/// Fewer rendered bytes are not counted: the stream that carries them costs as much.
pub(crate) const UNCOUNTED: usize = 4 << 10;

/// The memory that compressing one body takes beside its frames.
pub(crate) const COMPRESSOR: usize = 320 << 10;

/// The body of a response.
pub struct Body {
    content: Content,
    delivery: Delivery,
}

/// An answer ended before it was complete, which its client sees: too many answers to its user are
/// not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many answers to the user wait to be read; read them and ask again")]
pub struct BrokenOff;

enum Content {
    /// Known in full, or rendered as the client reads.
    Plain(Source),
    /// The same, compressed on the way.
    Gzip {
        source: Source,
        compressor: Option<Compressor>,
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
}

struct Compressor {
    encoder: GzEncoder<Vec<u8>>,
    /// Counts what it takes itself. None for administrators.
    _memory: Option<AnswerMemory>,
}

// === impl Body ===

impl Body {
    /// No content.
    pub fn empty() -> Self {
        Source::default().into()
    }

    /// Parts that cost memory of their own, and are therefore rendered as the client reads: a
    /// client that does not read holds no more of them than [`RENDERED_AHEAD`] and one part.
    pub(crate) fn rendered(parts: impl Iterator<Item = Pieces> + Send + 'static) -> Self {
        let mut source = Source {
            rest: Some(Box::new(parts)),
            ..Source::default()
        };
        source.fill(RENDERED_AHEAD);
        source.into()
    }

    /// How many bytes were rendered for the client already.
    pub(crate) fn rendered_bytes(&self) -> usize {
        self.content.source().map_or(0, Source::rendered_bytes)
    }

    /// Counts these bytes by memory that was taken for them.
    pub(crate) fn count_with(&mut self, memory: AnswerMemory) {
        if let Some(source) = self.content.source_mut() {
            source.ready.count_with(memory);
        }
    }

    /// Says whose share counts what is rendered from now on, nobody's for administrators; and who
    /// follows what is in transit, nobody for clients in this process, which read what they ask.
    pub(crate) fn deliver(&mut self, share: Option<AnswerShare>, transit: Option<TransitMonitor>) {
        self.delivery = Delivery::new(share, transit);
    }

    /// The same content, compressed; a stream stays as it is.
    #[must_use]
    pub(crate) fn gzip(self, memory: Option<AnswerMemory>) -> Self {
        let content = match self.content {
            Content::Plain(source) => Content::Gzip {
                source,
                compressor: Some(Compressor {
                    encoder: GzEncoder::new(Vec::with_capacity(FRAME), Compression::fast()),
                    _memory: memory,
                }),
            },
            content @ (Content::Gzip { .. } | Content::Indented { .. } | Content::Stream(_)) => {
                content
            }
        };
        Self { content, ..self }
    }

    /// The same JSON, laid out for people; a stream stays as it is.
    #[must_use]
    pub(crate) fn indented(self) -> Self {
        let content = match self.content {
            Content::Plain(source) => Content::Indented {
                source,
                indenter: Indenter::default(),
            },
            content @ (Content::Gzip { .. } | Content::Indented { .. } | Content::Stream(_)) => {
                content
            }
        };
        Self { content, ..self }
    }

    /// The same content in another encoding: what is known in full by `whole`, if that can be
    /// done, and the frames of a stream by `frame`. Others stay as they are.
    pub(crate) fn converted(
        self,
        whole: fn(&[u8]) -> Option<Vec<u8>>,
        frame: fn(&[u8]) -> Vec<u8>,
    ) -> Converted {
        match self.content {
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
                Converted::Not(content.into())
            }
        }
    }

    /// Whatever the stream yields.
    pub fn stream(stream: impl Stream<Item = Pieces> + Send + 'static) -> Self {
        Content::Stream(Box::pin(stream)).into()
    }

    fn poll_pieces(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Pieces>, BrokenOff>> {
        let delivery = &mut self.delivery;
        ready!(delivery.poll_taken(cx));
        let next = match &mut self.content {
            Content::Plain(source) => source.next_frame(delivery)?,
            Content::Gzip { source, compressor } => {
                next_compressed(source, compressor, delivery)?.map(Pieces::from)
            }
            Content::Indented { source, indenter } => {
                next_indented(source, indenter, delivery)?.map(Pieces::from)
            }
            Content::Stream(stream) => ready!(stream.as_mut().poll_next(cx)),
        };
        let Some(mut frame) = next else {
            return Poll::Ready(Ok(None));
        };
        if !self.content.is_light(&frame) {
            delivery.hand_out(&mut frame)?;
        }
        Poll::Ready(Ok(Some(frame)))
    }
}

impl From<Content> for Body {
    fn from(content: Content) -> Self {
        Self {
            content,
            delivery: Delivery::default(),
        }
    }
}

impl From<Source> for Body {
    fn from(source: Source) -> Self {
        Content::Plain(source).into()
    }
}

impl From<Pieces> for Body {
    fn from(ready: Pieces) -> Self {
        Source { ready, rest: None }.into()
    }
}

/// Bytes that were rendered for one client.
impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Pieces::from(bytes).into()
    }
}

/// Bytes that were rendered for one client.
impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl http_body::Body for Body {
    type Data = Pieces;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Pieces>, BrokenOff>>> {
        let next = ready!(self.poll_pieces(cx));
        if next.is_err() {
            // What is left is freed now, and not when the client has heard of it.
            self.content = Content::Plain(Source::default());
        }
        Poll::Ready(next.transpose().map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        let is_empty = matches!(&self.content, Content::Plain(source) if source.is_empty());
        is_empty && !self.delivery.is_under_way()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Plain(source) => source.size_hint(),
            Content::Gzip { .. } | Content::Indented { .. } | Content::Stream(_) => {
                SizeHint::default()
            }
        }
    }
}

// === impl Content ===

impl Content {
    fn source(&self) -> Option<&Source> {
        match self {
            Self::Plain(source) | Self::Gzip { source, .. } | Self::Indented { source, .. } => {
                Some(source)
            }
            Self::Stream(_) => None,
        }
    }

    fn source_mut(&mut self) -> Option<&mut Source> {
        match self {
            Self::Plain(source) | Self::Gzip { source, .. } | Self::Indented { source, .. } => {
                Some(source)
            }
            Self::Stream(_) => None,
        }
    }

    /// Returns true if nothing is bounded by following this frame: it costs little memory if its
    /// client does not read, and either it is the last or all of it is shared.
    fn is_light(&self, frame: &Pieces) -> bool {
        let is_last = matches!(self, Self::Plain(source) if source.is_empty());
        let rendered = frame.rendered_bytes();
        frame.remaining() <= FRAME && (rendered == 0 || is_last && rendered < UNCOUNTED)
    }
}

// === impl Source ===

impl Source {
    fn rendered_bytes(&self) -> usize {
        self.ready.rendered_bytes()
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

    /// Renders and counts the next `bytes`, if none are ready.
    fn refill(&mut self, bytes: usize, delivery: &Delivery) -> Result<(), BrokenOff> {
        if !self.ready.has_remaining() && self.rest.is_some() {
            // Frees what was counted before.
            self.ready = Pieces::default();
            self.fill(bytes);
            delivery.count(&mut self.ready)?;
        }
        Ok(())
    }

    /// All that is ready in one frame: it is shared or there already, so nothing is gained by
    /// parts of it.
    fn next_frame(&mut self, delivery: &Delivery) -> Result<Option<Pieces>, BrokenOff> {
        self.refill(FRAME, delivery)?;
        let is_some = self.ready.has_remaining();
        Ok(is_some.then(|| std::mem::take(&mut self.ready)))
    }

    /// The next bytes, at most `limit` of them; none at the end. They stay until
    /// [`Source::advance`].
    fn chunk(&mut self, limit: usize, delivery: &Delivery) -> Result<Option<&[u8]>, BrokenOff> {
        self.refill(1, delivery)?;
        let chunk = self.ready.chunk();
        let chunk = &chunk[..chunk.len().min(limit)];
        Ok((!chunk.is_empty()).then_some(chunk))
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
fn next_compressed(
    source: &mut Source,
    compressor: &mut Option<Compressor>,
    delivery: &Delivery,
) -> Result<Option<Bytes>, BrokenOff> {
    let Some(Compressor { encoder, .. }) = compressor else {
        return Ok(None);
    };
    while let Some(chunk) = source.chunk(usize::MAX, delivery)? {
        encoder
            .write_all(chunk)
            .expect("writing to memory does not fail");
        let size = chunk.len();
        source.advance(size);
        if encoder.get_ref().len() >= FRAME {
            return Ok(Some(std::mem::take(encoder.get_mut()).into()));
        }
    }
    let rest = compressor.take().map(|compressor| {
        let rest = compressor.encoder.finish();
        rest.expect("writing to memory does not fail").into()
    });
    Ok(rest)
}

/// The next bytes laid out; none when all is sent.
fn next_indented(
    source: &mut Source,
    indenter: &mut Indenter,
    delivery: &Delivery,
) -> Result<Option<Bytes>, BrokenOff> {
    let mut out = Vec::new();
    while out.len() < FRAME
        && let Some(chunk) = source.chunk(FRAME, delivery)?
    {
        indenter.push(chunk, &mut out);
        let size = chunk.len();
        source.advance(size);
    }
    Ok((!out.is_empty()).then(|| out.into()))
}

#[cfg(test)]
mod tests;
