//! A held gate shows what it would write, and writes it in order.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::testing::disk::{MemoryDisk, SyncFault};
use crate::{Medium, embedded::disk::Disk};

fn gated(disk: &MemoryDisk) -> (Arc<Gate>, Gated) {
    let backend = disk.open().unwrap().unwrap();
    let gate = Arc::new(Gate::held(backend, Arc::default()).unwrap());
    (Arc::clone(&gate), Gated(gate))
}

fn content(backend: &Gated) -> Vec<u8> {
    let mut content = vec![0; usize::try_from(backend.len().unwrap()).unwrap()];
    backend.read(0, &mut content).unwrap();
    content
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..20_000_u64, vec(any::<u8>(), 0..9000)).prop_map(|(at, data)| Step::Write(at, data)),
        1 => (1..30_000_u64).prop_map(Step::SetLen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_held_reads_as_written(
        initial in vec(any::<u8>(), 1..10_000),
        steps in vec(step(), 1..20),
        at in 0..30_000_u64,
        len in 0..9000_usize,
    ) {
        let disk = MemoryDisk::with_content(initial.clone());
        let (gate, held) = gated(&disk);
        let plain = MemoryDisk::with_content(initial.clone());
        let expected = plain.open().unwrap().unwrap();
        for step in &steps {
            match step {
                Step::Write(at, data) => {
                    held.write(*at, data).unwrap();
                    expected.write(*at, data).unwrap();
                }
                Step::SetLen(len) => {
                    held.set_len(*len).unwrap();
                    expected.set_len(*len).unwrap();
                }
            }
        }
        held.sync_data().unwrap();
        prop_assert_eq!(content(&held), plain.content());
        let (mut part, mut expected_part) = (vec![0; len], vec![0; len]);
        let read = held.read(at, &mut part).is_ok();
        prop_assert_eq!(read, expected.read(at, &mut expected_part).is_ok());
        prop_assert_eq!(part, expected_part);
        prop_assert_eq!((disk.content(), disk.writes()), (initial, 0));
        gate.release().unwrap();
        prop_assert_eq!(disk.content(), plain.content());
        prop_assert_eq!(content(&held), plain.content());
    }
}

#[test]
fn what_is_cut_off_cannot_be_read() {
    let disk = MemoryDisk::with_content(vec![1; 5000]);
    let (_gate, held) = gated(&disk);
    held.set_len(1000).unwrap();
    held.read(900, &mut [0; 100]).unwrap();
    held.read(900, &mut [0; 101]).unwrap_err();
}

#[test]
fn a_release_that_fails_can_be_repeated() {
    let disk = MemoryDisk::with_content(b"aaaa".to_vec());
    let (gate, held) = gated(&disk);
    held.write(0, b"b").unwrap();
    held.sync_data().unwrap();
    held.write(1, b"c").unwrap();
    disk.fail_writes_after(Some(1));
    gate.release().unwrap_err();
    assert_eq!(
        (disk.content(), content(&held)),
        (b"baaa".to_vec(), b"bcaa".to_vec())
    );
    disk.fail_writes_after(None);
    gate.release().unwrap();
    assert_eq!(disk.content(), b"bcaa");
    held.write(2, b"d").unwrap();
    assert_eq!(
        (disk.content(), content(&held)),
        (b"bcda".to_vec(), b"bcda".to_vec())
    );
}

#[test]
fn what_a_failed_sync_forgot_is_written_again() {
    let memory = MemoryDisk::with_content(b"aaaa".to_vec());
    let disk = Disk::new(Box::new(memory.clone()));
    let gate = disk.open().unwrap().unwrap();
    gate.release().unwrap();
    let backend = Gated(gate);
    backend.write(1, b"b").unwrap();
    memory.fail_syncs(&[SyncFault::Forgets, SyncFault::Keeps]);
    backend.sync_data().unwrap_err();
    disk.settle().unwrap_err();
    disk.settle().unwrap();
    memory.lose_power(|_| false);
    assert_eq!(memory.content(), b"abaa");
}
