//! Sets of names in few words: `eu-[1-3,7],us-1`, so that a status stays small with thousands of
//! zones and can still be read.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers of more digits are not counted on.
const DIGITS: usize = 9;

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
        let ranges = ranges(&numbers);
        parts.insert(match ranges.as_slice() {
            [only] if !only.contains('-') => format!("{prefix}{only}"),
            ranges => format!("{prefix}[{}]", ranges.join(",")),
        });
    }
    let parts: Vec<String> = parts.into_iter().collect();
    parts.join(",")
}

/// The first names in few words, and how many more there are.
pub(crate) fn brief(names: &[&str], most: usize) -> String {
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
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        let (prefix, after) = rest.split_at(end);
        rest = match after.strip_prefix('[') {
            Some(inner) => {
                let (inner, after) = inner.split_once(']')?;
                for range in inner.split(',') {
                    expand(prefix, range, &mut names)?;
                }
                after
            }
            None => {
                names.insert(prefix.to_owned());
                after
            }
        };
        rest = match rest.strip_prefix(',') {
            Some("") => return None,
            Some(rest) => rest,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(names)
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
        check(&["z09", "z10", "z11"], "z[10-11,09]");
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

    proptest! {
        #[test]
        fn what_is_written_can_be_read(names in prop::collection::btree_set("[a-c]{0,2}-?[0-9]{1,12}|[a-c]{1,3}", 0..40)) {
            let written = write(names.iter().map(String::as_str));
            prop_assert_eq!(read(&written), Some(names));
        }

        #[test]
        fn no_text_breaks_it(text in "[a-c0-9,\\[\\]-]{0,20}") {
            let _ = read(&text);
        }
    }
}
