//! Sets of names in few words: `eu-[1-3,7],us-1`, so that a status stays small with thousands of
//! zones and can still be read. Where there are very many without numbers, what they begin with is
//! written once: `store-{berlin-{mitte,nord},paris}`.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers of more digits are not counted on.
const DIGITS: usize = 9;
/// Up to so many bytes names are written out, for people.
const PLAIN: usize = 1000;
/// What names begin with is told apart so often in one name.
const DEEP: usize = 32;

/// The names, in few words.
pub fn write<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut numbered: BTreeMap<&str, BTreeSet<(usize, u32)>> = BTreeMap::new();
    let mut plain: BTreeSet<&str> = BTreeSet::new();
    for name in names {
        match split(name) {
            Some((prefix, width, number)) => {
                numbered.entry(prefix).or_default().insert((width, number));
            }
            None => {
                plain.insert(name);
            }
        }
    }
    let mut parts: BTreeSet<String> = plain.into_iter().map(str::to_owned).collect();
    for (prefix, numbers) in numbered {
        let ranges = ranges(&same_width(&numbers));
        parts.insert(match ranges.as_slice() {
            [only] if !only.contains('-') => format!("{prefix}{only}"),
            ranges => format!("{prefix}[{}]", ranges.join(",")),
        });
    }
    let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    if parts.iter().map(|part| part.len() + 1).sum::<usize>() > PLAIN {
        let mut folded = String::new();
        fold(&parts, 0, DEEP, &mut folded);
        return folded;
    }
    parts.sort_by_key(|part| natural(part));
    parts.join(",")
}

/// A name as people sort it: numbers in it count by their values.
fn natural(name: &str) -> Vec<(&str, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, after) = rest.split_at(text);
        let digits = after.find(|c: char| !c.is_ascii_digit());
        let (digits, after) = after.split_at(digits.unwrap_or(after.len()));
        // The first of a range stands for it.
        let text = text.strip_suffix('[').unwrap_or(text);
        parts.push((text, digits.parse().unwrap_or(u64::MAX)));
        rest = after;
    }
    parts
}

/// A number without zeros in front goes with those that have them and are as long.
fn same_width(numbers: &BTreeSet<(usize, u32)>) -> BTreeSet<(usize, u32)> {
    let widths: BTreeSet<usize> = numbers.iter().map(|(width, _)| *width).collect();
    let one = |(width, number): &(usize, u32)| {
        let digits = number.to_string().len();
        let is_alike = *width == 0 && widths.contains(&digits) && digits > 1;
        (if is_alike { digits } else { *width }, *number)
    };
    numbers.iter().map(one).collect()
}

/// Writes sorted parts, but for what they all begin with: what several begin with comes once.
fn fold(parts: &[&str], from: usize, deep: usize, out: &mut String) {
    let mut rest = parts;
    while let Some(first) = rest.first() {
        let begins = |part: &&&str| part.as_bytes().get(from) == first.as_bytes().get(from);
        let alike = match first.len() > from && deep > 0 {
            true => rest.iter().take_while(begins).count(),
            false => 1,
        };
        let (group, others) = rest.split_at(alike);
        let shared = from + shared(first, group[alike - 1], from);
        // The braces take two.
        if alike > 1 && (shared - from) * (alike - 1) > 2 {
            out.push_str(&first[from..shared]);
            out.push('{');
            fold(group, shared, deep - 1, out);
            out.push('}');
        } else {
            let names: Vec<&str> = group.iter().map(|part| &part[from..]).collect();
            out.push_str(&names.join(","));
        }
        if !others.is_empty() {
            out.push(',');
        }
        rest = others;
    }
}

/// How many bytes two names share after so many. Sorted, all between them share these, too.
fn shared(one: &str, other: &str, from: usize) -> usize {
    let both = one[from..].char_indices().zip(other[from..].chars());
    let mut both = both.take_while(|((_, a), b)| a == b && *a != '[');
    let last = both.by_ref().last();
    last.map_or(0, |((at, c), _)| at + c.len_utf8())
}

/// The first names in few words, and how many more there are.
pub fn brief(names: &[&str], most: usize) -> String {
    let kept = fitting(names.iter().copied(), most);
    let text = write(names[..kept].iter().copied());
    match (kept, names.len() - kept) {
        (0, 0) => "none".to_owned(),
        (_, 0) => text,
        (_, more) => format!("{text} and {more} more"),
    }
}

/// How many names so many bytes hold, and one in any case.
pub(crate) fn fitting<'a>(names: impl Iterator<Item = &'a str>, most: usize) -> usize {
    let mut bytes = 0;
    let fits = |name: &&str| {
        bytes += name.len() + 1;
        bytes <= most
    };
    let mut names = names;
    let first = usize::from(names.by_ref().take(1).count() == 1);
    first + names.take_while(fits).count()
}

/// A name's number at its end. Its width is zero when it has no zeros in front.
fn split(name: &str) -> Option<(&str, usize, u32)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let digits = digits.min(DIGITS);
    let (prefix, number) = name.split_at(name.len() - digits);
    // Who has more digits than are counted on is one of its own.
    if digits == 0 || prefix.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let padded = number.len() > 1 && number.starts_with('0');
    let width = if padded { number.len() } else { 0 };
    Some((prefix, width, number.parse().ok()?))
}

fn ranges(numbers: &BTreeSet<(usize, u32)>) -> Vec<String> {
    let mut found: Vec<(usize, u32, u32)> = Vec::new();
    for (width, number) in numbers {
        match found.last_mut() {
            Some((of, _, last)) if of == width && last.checked_add(1) == Some(*number) => {
                *last = *number;
            }
            Some(_) | None => found.push((*width, *number, *number)),
        }
    }
    let one = |width: usize, number: u32| format!("{number:0width$}");
    let range = |(width, first, last): (usize, u32, u32)| match first == last {
        true => one(width, first),
        false => format!("{}-{}", one(width, first), one(width, last)),
    };
    found.into_iter().map(range).collect()
}

/// The names that were written like this. Nothing if it is nothing that is written here, or more
/// names than anybody has.
pub fn read(text: &str) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    if text.is_empty() {
        return Some(names);
    }
    // What the names in braces begin with, from the outside to the inside.
    let mut open: Vec<String> = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find([',', '[', '{', '}']).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let begins = open.last().map_or("", String::as_str);
        let name = format!("{begins}{part}");
        rest = after;
        if let Some(inner) = rest.strip_prefix('{') {
            if open.len() >= DEEP {
                return None;
            }
            open.push(name);
            rest = inner;
            continue;
        }
        if let Some(inner) = rest.strip_prefix('[') {
            let (inner, after) = inner.split_once(']')?;
            for range in inner.split(',') {
                expand(&name, range, &mut names)?;
            }
            rest = after;
        } else {
            names.insert(name);
        }
        while let Some(after) = rest.strip_prefix('}') {
            open.pop()?;
            rest = after;
        }
        match rest.strip_prefix(',') {
            Some("") => return None,
            Some(after) => rest = after,
            None if rest.is_empty() && open.is_empty() => return Some(names),
            None => return None,
        }
    }
}

/// More zones than a policy can have.
const MOST: usize = 1_000_000;

fn expand(prefix: &str, range: &str, names: &mut BTreeSet<String>) -> Option<()> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let padded = first.len() > 1 && first.starts_with('0');
    let width = if padded { first.len() } else { 0 };
    let (from, to): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let count = usize::try_from(to.checked_sub(from)?).ok()?;
    if names.len() + count > MOST {
        return None;
    }
    names.extend((from..=to).map(|number| format!("{prefix}{number:0width$}")));
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(names: &[&str], expected: &str) {
        let written = write(names.iter().copied());
        assert_eq!(written, expected);
        let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(read(&written), Some(names));
    }

    #[test]
    fn names_in_few_words() {
        check(&[], "");
        check(&["eu"], "eu");
        check(&["eu-1"], "eu-1");
        check(&["eu-1", "eu-2", "eu-3", "eu-7", "us"], "eu-[1-3,7],us");
        check(&["z9", "z10", "z11"], "z[9-11]");
        check(&["z09", "z10", "z11"], "z[09-11]");
        check(&["z10", "z11"], "z[10-11]");
        check(&["z2-a", "z10-a", "z1-b"], "z1-b,z2-a,z10-a");
        check(
            &["a10-1", "a10-2", "a9-1", "a9-2", "a9-x"],
            "a9-[1-2],a9-x,a10-[1-2]",
        );
        check(&["z01", "z1", "z001"], "z[1,01,001]");
        check(&["1", "2", "a"], "[1-2],a");
        check(&["a-12345678901", "a-0"], "a-0,a-12345678901");
    }

    #[test]
    fn nonsense_is_none() {
        for text in [
            "a[",
            "a[1",
            "a[3-1]",
            "a[x]",
            "a[1]b",
            "a,",
            "a[0-4294967295]",
            "a{b",
            "a{b}c",
            "a}",
            "a{b,}}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn thousands_stay_small() {
        let names: Vec<String> = (0..5000).map(|n| format!("zone-{n:05}")).collect();
        let written = write(names.iter().step_by(2).map(String::as_str));
        assert!(written.len() < 20_000, "{}", written.len());
        assert!(write(names.iter().map(String::as_str)).len() < 30);
    }

    #[test]
    fn what_many_begin_with_is_written_once() {
        let towns = ["berlin-mitte", "berlin-nord", "paris"];
        let names = |most: usize| -> BTreeSet<String> {
            let shops = (0..most).map(|n| char::from(b'a' + u8::try_from(n).expect("few")));
            let all = shops.flat_map(|shop| towns.map(|town| format!("store-{town}-{shop}")));
            all.collect()
        };
        let few = names(2);
        let written = write(few.iter().map(String::as_str));
        assert!(written.starts_with("store-berlin-mitte-a,"), "{written}");
        let many = names(26);
        let written = write(many.iter().map(String::as_str));
        assert!(
            written.starts_with("store-{berlin-{mitte-{a,b,c,d,"),
            "{written}"
        );
        assert_eq!(read(&written), Some(many));
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(names in prop::collection::btree_set("[a-c]{0,2}-?[0-9]{1,12}|[a-c]{1,3}", 0..40)) {
            let written = write(names.iter().map(String::as_str));
            prop_assert_eq!(read(&written), Some(names));
        }

        #[test]
        fn many_that_are_written_can_be_read(names in prop::collection::btree_set("[a-c]{0,4}-?[a-c0-9]{1,30}", 0..200)) {
            let written = write(names.iter().map(String::as_str));
            prop_assert_eq!(read(&written), Some(names));
        }

        #[test]
        fn no_text_breaks_it(text in "[a-c0-9,{}\\[\\]-]{0,20}") {
            let _ = read(&text);
        }
    }
}
