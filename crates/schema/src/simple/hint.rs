//! What an author may have meant.

/// Longer words have no neighbours: comparing takes time.
const MAX_LENGTH: usize = 40;
/// Nor are more words than these looked at.
const MAX_WORDS: usize = 1000;

/// Names of types elsewhere.
const TYPES: [(&str, &str); 25] = [
    ("number", "use float"),
    ("double", "use float"),
    ("float32", "use float"),
    ("float64", "use float"),
    ("decimal", "use float"),
    ("int", "use integer"),
    ("int32", "use integer"),
    ("int64", "use integer"),
    ("uint", "use integer"),
    ("long", "use integer"),
    ("bool", "use boolean"),
    ("str", "use string"),
    ("text", "use string"),
    ("bytes", "use string"),
    ("date", "use string"),
    ("any", "use object, which keeps all fields"),
    (
        "struct",
        "use object, which keeps all fields, or a map of fields",
    ),
    ("json", "use object, which keeps all fields"),
    ("map", "use map[string]string"),
    ("dict", "use map[string]string"),
    (
        "array",
        "use [] and the type of the items, such as []string",
    ),
    ("list", "use [] and the type of the items, such as []string"),
    ("array[string]", "use []string"),
    ("list[string]", "use []string"),
    ("[string]", "use []string"),
];

/// What to write in place of a type that is not known.
pub(super) fn for_type<'w>(name: &str, declared: impl Iterator<Item = &'w str>) -> Option<String> {
    if let Some(item) = name.strip_suffix("[]") {
        return Some(format!("use []{item}"));
    }
    let lower = name.to_lowercase();
    if let Some((_, hint)) = TYPES.iter().find(|(word, _)| *word == lower) {
        return Some((*hint).to_owned());
    }
    let known = ["string", "integer", "boolean", "float", "object"];
    let near = nearest(name, known.into_iter().chain(declared))?;
    Some(format!("use {near}"))
}

/// The word that is nearest to `name`, if one is near.
pub(super) fn nearest<'w>(name: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let name: Vec<char> = name.to_lowercase().chars().take(MAX_LENGTH + 1).collect();
    if name.len() > MAX_LENGTH {
        return None;
    }
    // A third of the letters may be wrong.
    let most = (name.len() / 3).min(3);
    words
        .take(MAX_WORDS)
        .filter(|word| word.len().abs_diff(name.len()) <= most && word.len() <= MAX_LENGTH)
        .map(|word| (distance(&name, word), word))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, word)| word)
}

/// How many letters must be put in, left out or changed, case apart.
fn distance(name: &[char], word: &str) -> usize {
    let word: Vec<char> = word.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (i, a) in name.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in word.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[word.len()]
}
