//! Texts with expressions, changed.

/// A text with its first expression changed, in each way.
pub(super) fn changed(text: &str) -> Vec<(&'static str, String)> {
    let Some((before, rest)) = text.split_once("${") else {
        return Vec::new();
    };
    let Some((inner, after)) = rest.split_once('}') else {
        return Vec::new();
    };
    let with = |inner: String| format!("{before}${{{inner}}}{after}");
    vec![
        ("is broken", with(format!("{inner} +"))),
        ("is not closed", format!("{before}${{{inner}{after}")),
        ("is nested", with(format!("${{{inner}}}"))),
        ("is empty", with(String::new())),
        (
            "reads what is not there",
            with("nowhere.metadata.name".to_owned()),
        ),
        ("reads an unknown field", with(format!("({inner}).mutated"))),
        (
            "calls an unknown function",
            with(format!("mutated({inner})")),
        ),
        ("is in a list", with(format!("[{inner}]"))),
        ("is a text", with(format!("string({inner})"))),
        ("is a number", with(format!("int({inner})"))),
        ("is dyn", with(format!("dyn({inner})"))),
        ("is optional", with(format!("optional.of({inner})"))),
        ("is a condition", with(format!("({inner}) == ({inner})"))),
        (
            "is one of two",
            with(format!("true ? ({inner}) : ({inner})")),
        ),
        ("is in a text", format!("a-{text}")),
        ("ends with a line", format!("{text}\n")),
    ]
}
