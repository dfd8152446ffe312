//! Names that may have been meant.

/// A hint at the name that comes nearest, if one comes near.
pub fn did_you_mean<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    // Longer names are not mistyped but made up.
    if name.len() > LONGEST {
        return None;
    }
    let most = (name.len() / 3).clamp(1, 3);
    known
        .into_iter()
        .take(MANY)
        .filter(|one| one.len() <= LONGEST && *one != name)
        .map(|one| (distance(name, one), one))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, one)| format!("did you mean `{one}`?"))
}

const LONGEST: usize = 64;
const MANY: usize = 1000;

/// How many letters must be put in, taken out or changed, the case apart.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<u8> = right
        .bytes()
        .map(|byte| byte.to_ascii_lowercase())
        .collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, byte) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(byte.to_ascii_lowercase() != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        for (name, known, found) in [
            ("replica", &["replicas", "selector"][..], Some("replicas")),
            ("Replicas", &["replicas"], Some("replicas")),
            ("deploymnet", &["deployment", "service"], Some("deployment")),
            ("zzz", &["replicas"], None),
            ("a", &["b"], Some("b")),
        ] {
            let hint = found.map(|found| format!("did you mean `{found}`?"));
            assert_eq!(did_you_mean(name, known.iter().copied()), hint, "{name}");
        }
    }
}
