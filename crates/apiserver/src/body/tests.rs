use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use http_body::Body as _;
use http_body_util::BodyExt;

use super::*;
use crate::flow::Flow;
use crate::server::Limits;

/// A budget of which one user has at most half, and from which small bodies are always to be had.
const BUDGET: usize = 16 << 20;

async fn collect(body: Body) -> Vec<u8> {
    let collected = body.collect().await.expect("it is complete");
    collected.to_bytes().to_vec()
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
    let compressed = collect(pieces().gzip(None)).await;
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(compressed.as_slice())
        .read_to_end(&mut plain)
        .unwrap();
    assert_eq!(plain, expected);
}

fn part(size: usize) -> Pieces {
    Pieces::from(Bytes::from(vec![b'1'; size]))
}

/// A rendered body of `count` parts of one kilobyte, and how many of them were rendered.
fn kilobytes(count: usize) -> (Body, Arc<AtomicUsize>) {
    let rendered = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&rendered);
    let parts = (0..count).map(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        part(1024)
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
    for form in [|body: Body| body.gzip(None), Body::indented] {
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

/// The share of one user, and how many bytes of it are free.
fn share() -> (AnswerShare, impl Fn() -> usize) {
    let flow = Flow::new(&Limits {
        answers: BUDGET,
        ..Limits::default()
    });
    let (share, probe) = (flow.answers("eve"), flow.answers("eve"));
    let free = move || {
        (0..BUDGET)
            .rev()
            .step_by(1024)
            .find(|bytes| probe.take(*bytes).is_some())
    };
    (share, move || free().unwrap_or_default())
}

/// Reads a body frame by frame, keeping each; gives the sizes, and what was free after each.
async fn held(mut body: Body, free: impl Fn() -> usize) -> Vec<(Pieces, usize)> {
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.expect("it is counted").into_data();
        frames.push((frame.ok().expect("data"), free()));
    }
    frames
}

#[tokio::test]
async fn every_frame_is_counted_until_it_is_dropped() {
    for form in [
        |body: Body| body,
        |body: Body| body.gzip(None),
        Body::indented,
        |body: Body| {
            let frames = futures::stream::unfold(body, |mut body| async {
                let frame = body.frame().await?.expect("data").into_data();
                Some((frame.ok().expect("data"), body))
            });
            Body::stream(frames)
        },
    ] {
        let (share, free) = share();
        let all = free();
        // Noise, which cannot be compressed to nothing.
        let mut state = 1_u32;
        let noise = std::iter::repeat_with(move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + u8::try_from(state >> 28).unwrap_or_default())
        });
        let noise: Vec<String> = (0..4).map(|_| noise.take(300_000).collect()).collect();
        let parts = noise
            .into_iter()
            .map(|text| Pieces::from(Bytes::from(text)));
        let mut body = form(Body::rendered(parts));
        body.deliver(Some(share), None);
        let frames = held(body, &free).await;
        let mut sent = 0;
        assert!(frames.len() > 3);
        for (frame, free) in &frames {
            sent += frame.remaining();
            assert!(
                all - free >= sent.min(all),
                "{sent} are held, {free} of {all} free"
            );
        }
        drop(frames);
        assert_eq!(free(), all);
    }
}

/// A row that is rendered after the client has begun to read was not counted.
#[tokio::test]
async fn a_part_that_cannot_be_counted_breaks_the_answer_off() {
    let (share, free) = share();
    let all = free();
    let sizes = [RENDERED_AHEAD, 100 << 10, all, 10];
    let mut body = Body::rendered(sizes.into_iter().map(part));
    body.deliver(Some(share), None);
    let first = body.frame().await.expect("a frame").expect("it is counted");
    drop(first);
    let second = body.frame().await.expect("a frame").expect("it is counted");
    assert_eq!(second.data_ref().map(Buf::remaining), Some(100 << 10));
    let third = body.frame().await.expect("it does not look complete");
    assert_eq!(third.err(), Some(BrokenOff));
    drop(second);
    assert_eq!(free(), all, "nothing is kept of what is broken off");
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn one_frame_is_on_its_way_at_a_time_and_the_end_waits_for_it() {
    let shared = || Pieces::shared(Bytes::from(vec![b'1'; 100 << 10]));
    for parts in [
        [part(90 << 10), part(5)],
        [shared(), part(5 << 10)],
        [part(5 << 10), part(0)],
    ] {
        let mut body = Body::rendered(parts.into_iter());
        body.deliver(None, Some(TransitMonitor::default()));
        let mut frames = 0;
        loop {
            let mut next = body.frame();
            let frame = (&mut next).now_or_never().expect("nothing is on its way");
            let Some(frame) = frame else {
                break;
            };
            frames += 1;
            if !body.is_end_stream() {
                assert!(body.frame().now_or_never().is_none(), "one is on its way");
            }
            drop(frame);
        }
        assert!(frames > 0);
        assert!(body.is_end_stream());
    }
}

#[tokio::test]
async fn small_answers_end_with_their_frame() {
    let mut list = Pieces::from(Bytes::from_static(b"{\"items\":["));
    list.push_shared(Bytes::from(vec![b'1'; 60 << 10]));
    for pieces in [
        part(UNCOUNTED - 1),
        Pieces::shared(Bytes::from_static(b"{}")),
        list,
    ] {
        let mut body = Body::from(pieces);
        body.deliver(None, Some(TransitMonitor::default()));
        let _frame = body.frame().await.expect("a frame").expect("data");
        assert!(body.is_end_stream());
    }
}
