//! Merging lists item by item.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{MergeBudget, PATCH, StrategicError, Strategy, merge_map, without_directives};
use crate::node::Node;

/// What a list's items are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Object,
    Scalar,
}

/// A list, what the patch has for it, and the order that the patch asks for.
pub(super) struct MergedList<'a> {
    pub(super) old: Option<Vec<Value>>,
    pub(super) new: Option<Vec<Value>>,
    pub(super) order: Vec<Value>,
    pub(super) strategy: Strategy<'a>,
    pub(super) node: Option<Node<'a>>,
    pub(super) name: &'a str,
}

/// A field whose list is merged: its name for messages, its schema, and the key of its items.
#[derive(Clone, Copy)]
pub(super) struct MergedField<'a> {
    pub(super) name: &'a str,
    pub(super) node: Option<Node<'a>>,
    pub(super) merge_key: Option<&'a str>,
}

/// Where items stand in a list: by the value of their merge key, or by their own value.
pub(super) struct Positions<'k> {
    merge_key: Option<&'k str>,
    by_text: HashMap<String, usize>,
}

// === impl Positions ===

impl<'k> Positions<'k> {
    pub(super) fn new(list: &[Value], merge_key: Option<&'k str>) -> Self {
        let mut by_text = HashMap::with_capacity(list.len());
        for (position, item) in list.iter().enumerate() {
            if let Some(text) = text(item, merge_key) {
                by_text.entry(text).or_insert(position);
            }
        }
        Self { merge_key, by_text }
    }

    pub(super) fn of(&self, item: &Value) -> Option<usize> {
        self.by_text.get(&text(item, self.merge_key)?).copied()
    }
}

fn text(item: &Value, merge_key: Option<&str>) -> Option<String> {
    match merge_key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

// === impl MergedList ===

impl MergedList<'_> {
    /// The merged items: those that the patch knows in its order, between them the others where
    /// they were.
    pub(super) fn merge(self, budget: &mut MergeBudget) -> Result<Vec<Value>, StrategicError> {
        let Self {
            old,
            new,
            order,
            strategy,
            node,
            name,
        } = self;
        let len = |list: &Option<Vec<Value>>| list.as_ref().map_or(0, Vec::len);
        budget.spend(len(&old) + len(&new) + order.len())?;
        if let Some(new) = &new {
            check_order(new, &order, strategy.merge_key)?;
        }
        let kind = kind(
            old.as_deref().unwrap_or_default(),
            new.as_deref().unwrap_or_default(),
        )?;
        let kind = kind.ok_or(StrategicError::NoElements)?;
        let places = places(old.as_deref(), new.as_deref(), strategy);
        let merged = match (old, new) {
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) => match strategy.merge {
                true => {
                    let list = MergedField {
                        name,
                        node,
                        merge_key: strategy.merge_key,
                    };
                    self::merge(old, new, list, budget)?
                }
                false => new,
            },
            (None, None) => Vec::new(),
        };
        arrange(merged, &order, &places, strategy.merge_key, kind)
    }
}

/// The old list as Kubernetes has it when it comes to the order. It merges in place: items move up
/// where others are deleted, and new ones take the room at the end.
pub(super) fn places(
    old: Option<&[Value]>,
    new: Option<&[Value]>,
    strategy: Strategy<'_>,
) -> Vec<Value> {
    let Some(old) = old else { return Vec::new() };
    let (Some(new), Some(key), true) = (new, strategy.merge_key, strategy.merge) else {
        return old.to_vec();
    };
    let directive = |item: &Value| item.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    if new
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"))
    {
        return old.to_vec();
    }
    let gone = new.iter().filter(|item| directive(item).is_some());
    let (mut places, mut used) = without_gone(old, gone.map(|item| item.get(key)), key);
    let mut known: HashSet<Option<Value>> = places[..used]
        .iter()
        .map(|item| item.get(key).cloned())
        .collect();
    for added in new.iter().filter(|item| directive(item).is_none()) {
        if used < places.len() && known.insert(added.get(key).cloned()) {
            places[used] = added.clone();
            used += 1;
        }
    }
    places
}

/// The old list after Kubernetes has deleted the items with these merge keys in place, one by one,
/// and the number of items that are left. Each deletion moves the later items up and leaves the
/// last item of the list in the room behind it, too.
fn without_gone<'v>(
    old: &'v [Value],
    gone: impl Iterator<Item = Option<&'v Value>>,
    key: &str,
) -> (Vec<Value>, usize) {
    let mut by_key: HashMap<Option<&Value>, Vec<usize>> = HashMap::with_capacity(old.len());
    for (index, item) in old.iter().enumerate() {
        by_key.entry(item.get(key)).or_default().push(index);
    }
    let mut is_left = vec![true; old.len()];
    let mut last = old.len();
    let mut behind = Vec::new();
    for index in gone.filter_map(|gone| by_key.remove(&gone)).flatten() {
        while last > 0 && !is_left[last - 1] {
            last -= 1;
        }
        behind.extend(last.checked_sub(1).map(|last| old[last].clone()));
        is_left[index] = false;
    }
    let left = old.iter().zip(&is_left).filter(|(_, is_left)| **is_left);
    let mut places: Vec<Value> = left.map(|(item, _)| item.clone()).collect();
    let used = places.len();
    // The first deletion left its item in the last place, and so on.
    places.extend(behind.into_iter().rev());
    (places, used)
}

/// What the items of both lists are; nothing if there are none.
pub(super) fn kind(old: &[Value], new: &[Value]) -> Result<Option<ItemKind>, StrategicError> {
    let mut all = old.iter().chain(new);
    let Some(first) = all.next() else {
        return Ok(None);
    };
    if first.is_array() {
        return Err(StrategicError::ListOfLists);
    }
    if !all.all(|item| std::mem::discriminant(item) == std::mem::discriminant(first)) {
        return Err(StrategicError::MixedTypes);
    }
    Ok(Some(if first.is_object() {
        ItemKind::Object
    } else {
        ItemKind::Scalar
    }))
}

/// `old` with the items of `new` merged into it.
pub(super) fn merge(
    old: Vec<Value>,
    new: Vec<Value>,
    list: MergedField<'_>,
    budget: &mut MergeBudget,
) -> Result<Vec<Value>, StrategicError> {
    budget.spend(old.len() + new.len())?;
    let Some(kind) = kind(&old, &new)? else {
        return Ok(old);
    };
    match kind {
        ItemKind::Scalar => {
            let mut merged = old.clone();
            merged.extend(new.iter().cloned());
            let mut seen = std::collections::HashSet::new();
            merged.retain(|item| seen.insert(item.to_string()));
            arrange(merged, &new, &old, list.merge_key, kind)
        }
        ItemKind::Object => {
            let undeclared = || StrategicError::UndeclaredMergeKey(list.name.to_owned());
            let key = list.merge_key.ok_or_else(undeclared)?;
            let (old, new) = apply_directives(old, new, key)?;
            let order = new.clone();
            let item = list.node.and_then(Node::items);
            let merged = merge_items(old.clone(), new, item, key, budget)?;
            arrange(merged, &order, &old, list.merge_key, kind)
        }
    }
}

/// Deletes or replaces as directives among the new items say; gives what is left of both.
fn apply_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let mut plain = Vec::with_capacity(new.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for item in new {
        match item.get(PATCH) {
            None => plain.push(item),
            Some(Value::String(directive)) => match directive.as_str() {
                "delete" => {
                    let named = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                    gone.insert(named.clone());
                }
                "replace" => replace = true,
                "merge" => return Err(StrategicError::MergeDirective),
                other => return Err(StrategicError::UnknownDirective(other.to_owned())),
            },
            Some(other) => return Err(StrategicError::UnknownDirective(other.to_string())),
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if !gone.is_empty() {
        old.retain(|old| old.get(key).is_none_or(|named| !gone.contains(named)));
    }
    Ok((old, plain))
}

fn merge_items(
    mut merged: Vec<Value>,
    new: Vec<Value>,
    item: Option<Node<'_>>,
    key: &str,
    budget: &mut MergeBudget,
) -> Result<Vec<Value>, StrategicError> {
    let mut positions = Positions::new(&merged, Some(key));
    for new in new {
        let text = text(&new, Some(key)).ok_or_else(|| no_merge_key(&new, key))?;
        match positions.by_text.get(&text) {
            Some(&position) => {
                let old = std::mem::take(&mut merged[position]);
                let both = merge_map(into_map(old), into_map(new), item, budget)?;
                merged[position] = Value::Object(both);
            }
            None => {
                positions.by_text.insert(text, merged.len());
                merged.push(new);
            }
        }
    }
    Ok(merged)
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

fn no_merge_key(item: &Value, key: &str) -> StrategicError {
    StrategicError::NoMergeKey {
        item: item.to_string(),
        key: key.to_owned(),
    }
}

/// Items that `order` knows stand in its order; the others stay where they were among them in
/// `old`.
fn arrange(
    merged: Vec<Value>,
    order: &[Value],
    old: &[Value],
    merge_key: Option<&str>,
    kind: ItemKind,
) -> Result<Vec<Value>, StrategicError> {
    let merge_key = merge_key.filter(|_| kind == ItemKind::Object);
    if let Some(key) = merge_key {
        let keyless = merged
            .iter()
            .chain(order)
            .chain(old)
            .find(|item| item.get(key).is_none());
        if let Some(item) = keyless {
            return Err(no_merge_key(item, key));
        }
    }
    let order = Positions::new(order, merge_key);
    let old = Positions::new(old, merge_key);
    let (mut ordered, mut others): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .partition(|item| order.of(item).is_some());
    ordered.sort_by_cached_key(|item| order.of(item));
    others.sort_by_cached_key(|item| old.of(item).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(ordered.len() + others.len());
    let (mut ordered, mut others) = (
        ordered.into_iter().peekable(),
        others.into_iter().peekable(),
    );
    loop {
        let first = match (ordered.peek(), others.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(ordered), Some(other)) => match (old.of(other), old.of(ordered)) {
                (Some(other), Some(ordered)) => ordered <= other,
                (_, _) => true,
            },
        };
        out.extend(if first { ordered.next() } else { others.next() });
    }
}

/// The items of a patch list must stand in the order that its parallel list gives.
fn check_order(
    new: &[Value],
    order: &[Value],
    merge_key: Option<&str>,
) -> Result<(), StrategicError> {
    if new.is_empty() || order.is_empty() {
        return Ok(());
    }
    let deletes = |item: &Value| item.get(PATCH).and_then(Value::as_str) == Some("delete");
    let mut items = new.iter().filter(|item| !deletes(item)).peekable();
    let mut order = order.iter().peekable();
    while let (Some(item), Some(due)) = (items.peek(), order.peek()) {
        if item.get(PATCH).is_some() {
            items.next();
            continue;
        }
        let wanted = text(item, merge_key);
        if let (None, Some(key)) = (&wanted, merge_key) {
            return Err(no_merge_key(item, key));
        }
        if text(due, merge_key) == wanted {
            items.next();
        }
        order.next();
    }
    match items.peek() {
        None => Ok(()),
        Some(_) => {
            let shown = Value::Array(new.to_vec()).to_string();
            Err(StrategicError::OrderMismatch(shown))
        }
    }
}
