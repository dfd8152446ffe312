//! How a simulation is to go: what annotations and images ask for. Pure.

use std::time::Duration;

use serde_json::Value;

/// Asks for trouble, on the object or on its Pod template.
pub(super) const ANNOTATION: &str = deltaplane_api::keys::SIMULATE;
/// The tag of images that fail.
const BROKEN: &str = "broken";

/// How it is to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) outcome: Outcome,
    /// Another delay than the usual one.
    pub(super) delay: Option<Duration>,
    /// Why it does not go as usual, for people; empty if it does.
    pub(super) why: String,
}

/// How it is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    #[default]
    Healthy,
    Fails,
    /// It does not end.
    Hangs,
}

/// What one annotation asks for.
#[derive(Default)]
struct Wish {
    outcome: Option<Outcome>,
    delay: Option<Duration>,
    unknown: Option<String>,
}

// === impl Order ===

impl Order {
    /// The object's annotation comes before the template's, and both before images.
    pub(super) fn of(annotations: &Value, template: &Value, pod: &Value) -> Self {
        let own = Wish::of(annotations);
        let inner = Wish::of(&template["metadata"]["annotations"]);
        let unknown = own.unknown.or(inner.unknown);
        let not_understood = unknown.map(|word| format!("{ANNOTATION}: {word} is not understood"));
        let (outcome, why) = match (own.outcome.or(inner.outcome), broken_image(pod)) {
            (Some(Outcome::Fails), _) => (Outcome::Fails, Some(format!("{ANNOTATION}: fail"))),
            (Some(Outcome::Hangs), _) => (Outcome::Hangs, Some(format!("{ANNOTATION}: hang"))),
            (_, Some(image)) => (Outcome::Fails, Some(format!("image {image}"))),
            (Some(Outcome::Healthy) | None, None) => (Outcome::Healthy, None),
        };
        Self {
            outcome,
            delay: own.delay.or(inner.delay),
            why: why.or(not_understood).unwrap_or_default(),
        }
    }
}

// === impl Wish ===

impl Wish {
    fn of(annotations: &Value) -> Self {
        let mut wish = Self::default();
        let text = annotations[ANNOTATION].as_str().unwrap_or_default();
        for word in text.split(',').map(str::trim) {
            match (word, word.strip_prefix("delay=").and_then(duration)) {
                ("", _) => {}
                ("fail", _) => wish.outcome = Some(Outcome::Fails),
                ("hang", _) => wish.outcome = Some(Outcome::Hangs),
                (_, Some(delay)) => wish.delay = Some(delay),
                (word, None) => wish.unknown = Some(word.to_owned()),
            }
        }
        wish
    }
}

/// `500ms`, `5s`, `2m`, `1h`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = |each: u64| number.checked_mul(each).map(Duration::from_secs);
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3600),
        _ => None,
    }
}

fn broken_image(pod: &Value) -> Option<&str> {
    let lists = ["initContainers", "containers"];
    let containers = lists.iter().filter_map(|list| pod[*list].as_array());
    let mut images = containers.flatten().filter_map(|one| one["image"].as_str());
    images.find(|image| tag(image) == Some(BROKEN))
}

/// The tag of an image; a registry's port is none.
fn tag(image: &str) -> Option<&str> {
    let (name, _digest) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rsplit('/').next()?;
    last.split_once(':').map(|(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The order as a line: how it ends, after how many milliseconds, and why.
    fn check(own: &str, template: &str, image: &str, expected: &str) {
        let template = json!({"metadata": {"annotations": {ANNOTATION: template}}});
        let pod =
            json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": image}]});
        let Order {
            outcome,
            delay,
            why,
        } = Order::of(&json!({ANNOTATION: own}), &template, &pod);
        let delay = delay.map_or_else(|| "-".to_owned(), |delay| delay.as_millis().to_string());
        assert_eq!(format!("{outcome:?} {delay} {why}").trim_end(), expected);
    }

    #[test]
    fn annotations_ask_for_trouble() {
        check("", "", "b:1", "Healthy -");
        check("fail", "", "b:1", "Fails - deltaplane.io/simulate: fail");
        check("", "hang", "b:1", "Hangs - deltaplane.io/simulate: hang");
        check(
            "fail",
            "hang",
            "b:1",
            "Fails - deltaplane.io/simulate: fail",
        );
        check("delay=5s", "", "b:1", "Healthy 5000");
        check("delay=5s", "delay=1s", "b:1", "Healthy 5000");
        check(
            "delay=250ms",
            "fail",
            "b:1",
            "Fails 250 deltaplane.io/simulate: fail",
        );
        check(
            " fail , delay=2m",
            "",
            "b:1",
            "Fails 120000 deltaplane.io/simulate: fail",
        );
        check("delay=1h", "", "b:1", "Healthy 3600000");
        for odd in [
            "flail",
            "delay=",
            "delay=s",
            "delay=5",
            "delay=-5s",
            "delay=99999999999999999h",
        ] {
            let expected = format!("Healthy - deltaplane.io/simulate: {odd} is not understood");
            check(odd, "", "b:1", &expected);
        }
    }

    #[test]
    fn broken_images_fail() {
        check("", "", "nginx:broken", "Fails - image nginx:broken");
        check(
            "delay=1s",
            "",
            "r.example:5000/a/b:broken",
            "Fails 1000 image r.example:5000/a/b:broken",
        );
        check(
            "",
            "",
            "b:broken@sha256:00",
            "Fails - image b:broken@sha256:00",
        );
        check(
            "hang",
            "",
            "nginx:broken",
            "Hangs - deltaplane.io/simulate: hang",
        );
        for whole in [
            "broken",
            "broken:1",
            "b:unbroken",
            "broken:5000/b",
            "b@sha256:broken",
        ] {
            check("", "", whole, "Healthy -");
        }
    }
}
