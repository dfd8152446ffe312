//! What repeating, combining and undoing must give.

use deltaplane_api::time::Time;
use deltaplane_schema::fieldset::{Filter, Key, PathElement, Set};
use deltaplane_schema::managed::{self, Context, SingleVersion};
use deltaplane_schema::{Schema, strategic, typed};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::objects::{anything, object, schema, spec};

/// Failing cases are printed, not kept in files.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn set() -> impl Strategy<Value = Set> {
    let element = prop_oneof![
        proptest::sample::select(vec!["a", "b", "c"]).prop_map(PathElement::field),
        (0..2_i64).prop_map(PathElement::Index),
        (0..3_i64).prop_map(|number| PathElement::Value(Box::new(number.into()))),
        Just(PathElement::Key(
            Key::new([("x".into(), 1.into())]).expect("a key of one field")
        )),
    ];
    let path = proptest::collection::vec(element, 1..4);
    proptest::collection::vec(path, 0..8).prop_map(|paths| {
        let mut set = Set::new();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    })
}

fn with_context<T>(schema: &Schema, manager: &str, act: impl FnOnce(&Context<'_>) -> T) -> T {
    let versions = SingleVersion {
        api_version: "x.io/v1",
        schema,
    };
    act(&Context {
        versions: &versions,
        api_version: "x.io/v1",
        kind: "X",
        subresource: "",
        manager,
        fields: &Filter::All,
        now: Time::from_unix(1),
    })
}

fn owned(object: &Value) -> Set {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let sets = entries
        .into_iter()
        .flatten()
        .map(|entry| Set::from_fields_v1(&entry["fieldsV1"]).expect("our own wire form"));
    sets.fold(Set::new(), |all, set| all.union(&set))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn set_algebra(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(!a.difference(&b).intersects(&b));
        prop_assert_eq!(a.intersects(&b), !a.intersection(&b).is_empty());
        prop_assert_eq!(a.difference(&b).difference(&a.recursive_difference(&b)).intersection(&a.recursive_difference(&b)), Set::new());
        prop_assert_eq!(a.recursive_difference(&a), Set::new());
        prop_assert_eq!(a.union(&b).len(), a.len() + b.len() - a.intersection(&b).len());
        prop_assert_eq!(a.paths().len(), a.len());
        prop_assert_eq!(a.paths().into_iter().collect::<Set>(), a.clone());
        prop_assert_eq!(Filter::Exclude(b.clone()).apply(a.clone()), a.recursive_difference(&b));
        prop_assert_eq!(a.leaves().leaves(), a.leaves());
    }

    #[test]
    fn the_wire_form_keeps_everything(a in set()) {
        prop_assert_eq!(Set::from_fields_v1(&a.to_fields_v1()), Ok(a));
    }

    #[test]
    fn what_is_pruned_and_defaulted_stays_so(value in anything()) {
        let schema = schema();
        let mut pruned = value;
        let dropped = schema.prune_reporting(&mut pruned);
        let mut again = pruned.clone();
        prop_assert_eq!(schema.prune_reporting(&mut again), Vec::<String>::new(), "after {:?}", dropped);
        prop_assert_eq!(&again, &pruned);
        schema.default(&mut again);
        let mut twice = again.clone();
        schema.default(&mut twice);
        prop_assert_eq!(&twice, &again);
        schema.prune(&mut twice);
        prop_assert_eq!(twice, again, "defaults are declared");
    }

    #[test]
    fn objects_that_fit_have_no_errors(spec in spec()) {
        let schema = schema();
        let mut object = object(&spec);
        prop_assert_eq!(schema.decode(&mut object), Ok(()));
        prop_assert_eq!(schema.prune_reporting(&mut object), Vec::<String>::new());
        schema.default(&mut object);
        prop_assert_eq!(schema.validate(&object, None), []);
    }

    #[test]
    fn comparing_and_merging(a in spec(), b in spec()) {
        let schema = schema();
        let (a, b) = (object(&a), object(&b));
        prop_assert!(typed::compare(&a, &a, schema.root()).unwrap().is_same());
        prop_assert_eq!(typed::merge(&a, &a, schema.root()).unwrap(), Some(a.clone()));
        let merged = typed::merge(&a, &b, schema.root()).unwrap().unwrap();
        prop_assert!(typed::compare(&a, &merged, schema.root()).unwrap().removed.is_empty(), "merging removes nothing");
        let again = typed::merge(&merged, &b, schema.root()).unwrap();
        prop_assert_eq!(again, Some(merged), "what was merged in is there");
        let (there, back) = (
            typed::compare(&a, &b, schema.root()).unwrap(),
            typed::compare(&b, &a, schema.root()).unwrap(),
        );
        prop_assert_eq!((there.added, there.modified, there.removed), (back.removed, back.modified, back.added));
    }

    #[test]
    fn applying_twice_is_applying_once(live in proptest::option::of(spec()), other in spec(), config in spec()) {
        let schema = schema();
        let mut live = live.map(|live| object(&live));
        if let Some(live) = &mut live {
            with_context(&schema, "updater", |cx| managed::track_update(cx, None, live));
        }
        let first = with_context(&schema, "other", |cx| managed::apply(cx, live.as_ref(), &object(&other), true)).unwrap();
        let once = with_context(&schema, "me", |cx| managed::apply(cx, Some(&first), &object(&config), true)).unwrap();
        let twice = with_context(&schema, "me", |cx| managed::apply(cx, Some(&once), &object(&config), false)).unwrap();
        prop_assert_eq!(&twice, &once);
        let again = typed::merge(&once, &object(&config), schema.root()).unwrap();
        prop_assert_eq!(again, Some(once), "what is applied is there");
    }

    #[test]
    fn giving_up_all_fields_leaves_only_what_others_own(other in spec(), config in spec()) {
        let schema = schema();
        let first = with_context(&schema, "other", |cx| managed::apply(cx, None, &object(&other), true)).unwrap();
        let mine = with_context(&schema, "me", |cx| managed::apply(cx, Some(&first), &object(&config), true)).unwrap();
        let nothing = json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "n"}});
        let left = with_context(&schema, "me", |cx| managed::apply(cx, Some(&mine), &nothing, false)).unwrap();
        let stray = typed::fields(&left["spec"], schema.root().at("spec").unwrap()).leaves();
        let owned = owned(&left).with_prefix(&PathElement::field("spec")).clone();
        let unowned = stray.difference(&owned);
        prop_assert!(unowned.is_empty(), "{:?} in {}", unowned, left);
    }

    #[test]
    fn updates_make_owners_of_all_that_is_there(a in spec(), b in spec()) {
        let schema = schema();
        let mut live = object(&a);
        with_context(&schema, "a", |cx| managed::track_update(cx, None, &mut live));
        let mut new = object(&b);
        with_context(&schema, "b", |cx| managed::track_update(cx, Some(&live), &mut new));
        let fields = typed::fields(&new["spec"], schema.root().at("spec").unwrap());
        let owned = owned(&new).with_prefix(&PathElement::field("spec")).clone();
        prop_assert!(fields.difference(&owned).is_empty());
        let mut same = new.clone();
        with_context(&schema, "c", |cx| managed::track_update(cx, Some(&new), &mut same));
        prop_assert_eq!(same, new, "an update that changes nothing changes no owner");
    }

    #[test]
    fn patches_that_say_nothing_do_nothing(a in spec()) {
        let schema = schema();
        let object = object(&a);
        prop_assert_eq!(strategic::apply(&schema, &object, &json!({})), Ok(object.clone()));
        let whole = strategic::apply(&schema, &json!({}), &object).unwrap();
        let without = strategic::apply(&schema, &whole, &json!({"spec": null})).unwrap();
        prop_assert_eq!(without.get("spec"), None);
    }
}

/// A stored list may have items twice. Looking for each new item among all that are there twice would
/// cost the product of both numbers, and take minutes.
#[test]
fn many_repeated_items_are_not_compared_in_pairs() {
    let names = || (0..200_000).map(|number| json!(format!("n{number}")));
    let twice: Vec<Value> = names().chain(names()).collect();
    let once: Vec<Value> = names().collect();
    let merged = typed::merge(
        &json!({"spec": {"set": twice}}),
        &json!({"spec": {"set": once}}),
        schema().root(),
    );
    assert_eq!(merged.unwrap(), Some(json!({"spec": {"set": once}})));
}
