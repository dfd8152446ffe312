//! Fields of a custom kind that are computed, and that a subresource of their own writes.

/// By this annotation a definition names them: `spec.state,spec.identities`.
pub const ANNOTATION: &str = "deltaplane.io/computed-fields";
/// The subresource that writes them.
pub const SUBRESOURCE: &str = "computed";

/// The paths that the annotation names, legal or not.
pub fn paths(annotation: &str) -> impl Iterator<Item = &str> {
    annotation.split(',').map(str::trim)
}

/// Whether a path may be computed: metadata and status have writers of their own.
pub fn is_legal(path: &str) -> bool {
    path.starts_with("spec.") && path.split('.').all(|field| !field.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_fields_of_the_spec() {
        let check = |text: &str, expected: &[(&str, bool)]| {
            let found: Vec<_> = paths(text).map(|path| (path, is_legal(path))).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("spec.a, spec.b.c", &[("spec.a", true), ("spec.b.c", true)]);
        check("spec.a,", &[("spec.a", true), ("", false)]);
        for text in ["spec", "spec.", "spec..a", ".spec.a", "status.a", "special"] {
            check(text, &[(text, false)]);
        }
    }
}
