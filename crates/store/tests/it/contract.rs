//! The contract of drivers, as scenarios and at random.

use deltaplane_store::testing::{
    contract,
    model::{Guard, Name, Runner, Step, Write},
};
use proptest::{collection::vec, option, prelude::*};

use crate::support::{Embeddeds, block_on, ring};

#[test]
fn the_embedded_driver_keeps_the_contract() {
    block_on(contract::check(&mut Embeddeds::new(ring(1000))));
}

/// Only the last event is in memory, so that watches live on the log.
#[test]
fn the_contract_does_not_depend_on_the_ring() {
    block_on(contract::check(&mut Embeddeds::new(ring(1))));
}

fn name() -> impl Strategy<Value = Name> {
    (0..4_u8, 0..3_u8, 0..4_u8).prop_map(|(collection, namespace, name)| Name {
        collection,
        namespace,
        name,
    })
}

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![
        1 => Just(Guard::Absent),
        3 => Just(Guard::Present),
        2 => Just(Guard::Alive),
        3 => Just(Guard::Current),
        1 => Just(Guard::Other),
    ]
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        6 => (0..4_u8).prop_map(Write::Put),
        1 => (0..4_u8).prop_map(Write::Delete),
        1 => Just(Write::DeleteAsIs),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let back = || prop_oneof![4 => 0..6_u64, 1 => 0..40_u64];
    prop_oneof![
        12 => (vec((name(), guard()), 0..2), vec((name(), write()), 1..4))
            .prop_map(|(guards, writes)| Step::Commit { guards, writes }),
        2 => (name(), option::of(back())).prop_map(|(name, back)| Step::Get { name, back }),
        3 => (name(), any::<bool>(), 1..4_usize, option::of(back()), option::of(0..4_u8)).prop_map(
            |(name, namespaced, limit, back, label)| Step::List {
                name,
                namespaced,
                limit,
                back,
                label,
            }
        ),
        2 => (name(), 0..5_u8, back()).prop_map(|(name, parts, back)| Step::Watch { name, parts, back }),
        3 => (0..8_usize, 1..5_usize).prop_map(|(watch, max)| Step::Drain { watch, max }),
        1 => back().prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_driver_is_its_model(
        steps in vec(step(), 1..80),
        events in prop_oneof![Just(0), Just(3), Just(20), Just(1000)],
    ) {
        block_on(Runner::new(Embeddeds::new(ring(events))).run(&steps));
    }
}
