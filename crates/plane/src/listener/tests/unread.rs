//! Answers that their clients do not read.

use bytes::Buf;
use deltaplane_runtime::transit::InTransit;
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::mpsc;

use super::*;

/// More than connections buffer.
const LARGE: usize = 64 << 20;

/// Bytes in transit, and who hears when they are freed.
struct Tracked {
    bytes: Bytes,
    part: InTransit,
    freed: mpsc::UnboundedSender<()>,
}

impl Buf for Tracked {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.part.progress();
        self.bytes.advance(count);
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let _ = self.freed.send(());
    }
}

/// A server that answers at `/` with one large frame, elsewhere with a small one; and what tells
/// that a frame was freed.
fn start_large() -> (Tasks, SocketAddr, mpsc::UnboundedReceiver<()>) {
    let (freed, watch_freed) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let freed = freed.clone();
        async move {
            let transit = request.extensions().get::<TransitMonitor>();
            let size = if request.uri().path() == "/" {
                LARGE
            } else {
                3
            };
            let (part, taken) = transit.expect("every request has one").hand_out();
            let data = Tracked {
                bytes: Bytes::from(vec![b'x'; size]),
                part,
                freed,
            };
            let end = taken.map(|()| stream::empty()).flatten_stream();
            let frames = stream::iter([Ok(Frame::data(data))]).chain(end);
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        }
    });
    let limits = Limits {
        unread: Duration::from_millis(50),
        ..Limits::default()
    };
    let (tasks, address, _) = serve(limits, service);
    (tasks, address, watch_freed)
}

fn small() -> Request<Empty<Bytes>> {
    let mut small = request();
    *small.uri_mut() = "https://localhost/small".parse().expect("legal");
    small
}

#[tokio::test]
async fn a_stream_whose_client_does_not_read_is_reset_and_others_go_on() {
    let (tasks, address, mut freed) = start_large();
    let stream = connect(address, None, b"h2").await.expect("connected");
    let group = tasks.group("client");
    let (mut sender, connection) = http2::Builder::new(streams(&group))
        .initial_stream_window_size(3)
        .handshake(TokioIo::new(stream))
        .await
        .expect("HTTP");
    group.spawn(async move { connection.await.expect("clean") });
    let answer = sender.send_request(request()).await.expect("answered");
    let ended = tokio::time::timeout(GRACE, freed.recv()).await;
    ended.expect("what nobody reads is freed in time");
    let broken_off = answer.into_body().collect().await;
    broken_off.expect_err("it does not look complete");
    let other = sender.send_request(small()).await.expect("answered");
    assert_eq!(text(other).await, "xxx");
    tasks.shutdown(GRACE).await.expect("clean");
}

#[tokio::test]
async fn an_http1_connection_whose_client_does_not_read_is_closed() {
    let (tasks, address, mut freed) = start_large();
    let connected = connect(address, None, b"http/1.1").await;
    let mut stream = connected.expect("connected");
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).await.expect("it listens");
    let ended = tokio::time::timeout(GRACE, freed.recv()).await;
    ended.expect("what nobody reads is freed in time");
    let mut read = Vec::new();
    // However it ends: a server that cuts off does not say goodbye.
    let _ = tokio::time::timeout(GRACE, stream.read_to_end(&mut read)).await;
    assert!(read.len() < LARGE, "it does not look complete");
    tasks.shutdown(GRACE).await.expect("clean");
}
