//! A body's data as bytes, chunk by chunk: chunks that are shared already are passed on, and large
//! answers are never put together in one allocation.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

/// A body of another body's chunks.
pub(super) struct Chunks<B: Body> {
    inner: Pin<Box<B>>,
    /// What is left of the last frame.
    data: Option<B::Data>,
}

// === impl Chunks ===

impl<B: Body> Chunks<B> {
    pub(super) fn new(inner: B) -> Self {
        Self {
            inner: Box::pin(inner),
            data: None,
        }
    }

    fn next_chunk(&mut self) -> Option<Bytes> {
        let data = self.data.as_mut().filter(|data| data.has_remaining())?;
        let size = data.chunk().len();
        Some(data.copy_to_bytes(size))
    }
}

/// The inner body is pinned on its own, and the data never is.
impl<B: Body> Unpin for Chunks<B> {}

impl<B: Body> Body for Chunks<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        loop {
            if let Some(chunk) = self.next_chunk() {
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            let frame = match self.inner.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            match frame.into_data() {
                Ok(data) => self.data = Some(data),
                Err(other) => return Poll::Ready(Some(Ok(other.map_data(|_| Bytes::new())))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.data.as_ref().is_none_or(|data| !data.has_remaining()) && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.data.as_ref().map_or(0, Buf::remaining) as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(held + inner.lower());
        if let Some(upper) = inner.upper() {
            hint.set_upper(held + upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use http_body_util::{BodyExt, BodyStream, StreamBody};

    use super::*;

    #[tokio::test]
    async fn chunks_are_passed_on_one_by_one_and_shared() {
        let (first, second) = (Bytes::from(vec![b'a'; 10]), Bytes::from(vec![b'b'; 5]));
        let frames = [
            first.clone().chain(second.clone()),
            Bytes::new().chain(first.clone()),
        ];
        let frames = frames.map(|data| Ok::<_, Infallible>(Frame::data(data)));
        let body = Chunks::new(StreamBody::new(stream::iter(frames)));
        let seen: Vec<Bytes> = BodyStream::new(body)
            .map(|frame| frame.unwrap().into_data().unwrap())
            .collect()
            .await;
        let places = |all: &[Bytes]| -> Vec<_> { all.iter().map(|one| one.as_ptr()).collect() };
        let expected = [first.clone(), second, first];
        assert_eq!(
            (&seen[..], places(&seen)),
            (&expected[..], places(&expected))
        );
    }

    #[tokio::test]
    async fn the_whole_arrives_and_its_size_is_known() {
        let body = Chunks::new(http_body_util::Full::new(Bytes::from_static(b"whole")));
        assert_eq!(body.size_hint().exact(), Some(5));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "whole");
    }
}
