//! Bodies of requests on their way in: read within limits of size, memory and time, and what is
//! not wanted let pass.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;

use crate::error::Error;
use crate::flow::Upload;

/// An open upload counts for so many bytes at least, which bounds how many there are.
const SMALLEST: usize = 4 << 10;
/// As much of a body that nobody wants is let pass, five times the largest that is wanted.
const PASSED: usize = 16 << 20;
/// Whoever takes longer to send what nobody wants is answered in the middle of it.
pub(crate) const PASSING_TIME: Duration = Duration::from_secs(5);

/// Anything that reading a body may fail with.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Reads a whole body, up to `limit` bytes.
pub(crate) async fn read<B>(
    mut body: Pin<&mut B>,
    limit: usize,
    upload: &mut Upload,
) -> Result<Bytes, Error>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    // Most bodies are one piece, which is taken as it is.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    if body.is_end_stream() {
        return Ok(first);
    }
    upload.hold(SMALLEST)?;
    let mut counted = SMALLEST;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let error: BoxError = error.into();
            Error::bad_request(format!("reading the body failed: {error}"))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let size = first.len() + all.len() + data.len();
        if size > limit {
            return Err(Error::too_large(limit));
        }
        if size > counted {
            upload.hold(size - counted)?;
            counted = size;
        }
        if size == data.len() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    Ok(match all.is_empty() {
        true => first,
        false => all.freeze(),
    })
}

/// Lets the rest of a body pass, up to a size. An answer that is sent before its request was read
/// is lost on many clients: they see the stream reset, or the connection closed, while they write.
pub(crate) async fn pass<B>(mut body: Pin<&mut B>)
where
    B: Body<Data = Bytes>,
{
    let mut passed = 0;
    while passed < PASSED
        && let Some(Ok(frame)) = body.frame().await
    {
        passed += frame.data_ref().map_or(0, Bytes::len);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;

    use futures::StreamExt;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;
    use crate::flow::Flow;
    use crate::server::Limits;

    fn body(sizes: &[usize]) -> impl Body<Data = Bytes, Error = Infallible> {
        let frames: Vec<_> = sizes
            .iter()
            .map(|size| Ok(Frame::data(Bytes::from(vec![b'x'; *size]))))
            .collect();
        StreamBody::new(stream::iter(frames))
    }

    async fn check(sizes: &[usize], limit: usize, bodies: usize, expected: Result<usize, u16>) {
        let limits = Limits {
            bodies,
            ..Limits::default()
        };
        let mut upload = Flow::new(&limits).upload("a");
        let body = pin!(body(sizes));
        let read = read(body, limit, &mut upload).await;
        let read = read.map(|bytes| bytes.len());
        assert_eq!(
            read.map_err(|error| error.code.as_u16()),
            expected,
            "{sizes:?}"
        );
    }

    /// The smallest budget of which one user can have so much.
    fn budget_for(size: usize) -> usize {
        let mut budgets = 2 * size..;
        let fits = budgets.find(|budget| budget - budget / 8 >= 2 * size);
        fits.unwrap()
    }

    #[tokio::test]
    async fn bodies_are_read_within_limits() {
        let few = budget_for(SMALLEST);
        check(&[3, 4, 3], 10, few, Ok(10)).await;
        check(&[0, 3, 0], 10, few, Ok(3)).await;
        check(&[3, 4, 4], 10, few, Err(413)).await;
        check(&[1], 10, few - 1, Err(429)).await;
        check(&[SMALLEST], SMALLEST * 3, few, Ok(SMALLEST)).await;
        check(&[SMALLEST, 1], SMALLEST * 3, few, Err(429)).await;
        let (size, bodies) = (SMALLEST * 3, budget_for(SMALLEST * 3));
        check(&[SMALLEST, SMALLEST, SMALLEST], size, bodies, Ok(size)).await;
        check(&[SMALLEST, SMALLEST, SMALLEST], size, bodies - 1, Err(429)).await;
    }

    #[tokio::test]
    async fn no_body_costs_nothing() {
        let limits = Limits {
            bodies: 0,
            ..Limits::default()
        };
        let mut upload = Flow::new(&limits).upload("a");
        let empty = pin!(http_body_util::Empty::<Bytes>::new());
        assert_eq!(read(empty, 10, &mut upload).await.unwrap(), Bytes::new());
    }

    #[tokio::test]
    async fn so_much_passes_and_no_more() {
        let mut frames = 0;
        let endless = stream::repeat_with(|| {
            frames += 1;
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[0; 1 << 16])))
        });
        pass(pin!(StreamBody::new(endless.take(1000)))).await;
        assert_eq!(frames, PASSED >> 16);
        let mut short = pin!(body(&[1, 2, 3]));
        pass(short.as_mut()).await;
        assert!(short.frame().await.is_none());
    }
}
