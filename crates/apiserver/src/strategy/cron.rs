//! Schedules of CronJobs, as far as they can be wrong. Nothing here runs them.

/// The values that one part of a schedule may have.
struct Part {
    lowest: u32,
    highest: u32,
    /// Names for values, from the lowest on.
    names: &'static [&'static str],
}

const PARTS: [Part; 5] = [
    Part::numbers(0, 59),
    Part::numbers(0, 23),
    Part::numbers(1, 31),
    Part {
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
        ..Part::numbers(1, 12)
    },
    Part {
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
        ..Part::numbers(0, 6)
    },
];

const SHORTHANDS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// What is wrong with a schedule, in the words that users of Kubernetes know.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        return check_shorthand(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != PARTS.len() {
        let (wanted, found) = (PARTS.len(), fields.len());
        let fields = fields.join(" ");
        return Err(format!(
            "expected exactly {wanted} fields, found {found}: [{fields}]"
        ));
    }
    for (field, part) in fields.iter().zip(&PARTS) {
        let mut ranges = field.split(',').filter(|range| !range.is_empty());
        ranges.try_for_each(|range| part.check(range))?;
    }
    Ok(())
}

fn check_shorthand(schedule: &str) -> Result<(), String> {
    if SHORTHANDS.contains(&schedule) {
        return Ok(());
    }
    match schedule.strip_prefix("@every ") {
        Some(text) => check_duration(text)
            .map_err(|fault| format!("failed to parse duration {schedule}: time: {fault}")),
        None => Err(format!("unrecognized descriptor: {schedule}")),
    }
}

/// A duration as Go writes it: `1h30m`, `0.5s`, `0`.
fn check_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("invalid duration {text:?}");
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let of_number = |one: char| one.is_ascii_digit() || one == '.';
        let unit_at = rest.find(|one| !of_number(one)).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(unit_at);
        let digits = number.chars().any(|one| one.is_ascii_digit());
        if !digits || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        let unit_end = tail.find(of_number).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        match unit {
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = tail,
            "" => return Err(format!("missing unit in duration {text:?}")),
            unit => return Err(format!("unknown unit {unit:?} in duration {text:?}")),
        }
    }
    Ok(())
}

fn number(text: &str) -> Result<u32, String> {
    let parsed: Result<i64, _> = text.parse();
    match parsed {
        Ok(negative @ ..0) => Err(format!("negative number ({negative}) not allowed: {text}")),
        Ok(number) => u32::try_from(number).map_err(|_| format!("number is too large: {text}")),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

// === impl Part ===

impl Part {
    const fn numbers(lowest: u32, highest: u32) -> Self {
        Self {
            lowest,
            highest,
            names: &[],
        }
    }

    /// One of `*`, `5`, `1-5`, `mon`, each perhaps with a step: `*/2`.
    fn check(&self, range: &str) -> Result<(), String> {
        let mut parts = range.split('/');
        let bounds: Vec<&str> = parts.next().unwrap_or_default().split('-').collect();
        let (start, end) = match bounds.as_slice() {
            ["*" | "?", ..] => (self.lowest, self.highest),
            [one] => {
                let one = self.value(one)?;
                (one, one)
            }
            [first, last] => (self.value(first)?, self.value(last)?),
            _ => return Err(format!("too many hyphens: {range}")),
        };
        let steps: Vec<&str> = parts.collect();
        let step = match steps.as_slice() {
            [] => 1,
            [step] => number(step)?,
            _ => return Err(format!("too many slashes: {range}")),
        };
        // A single value with a step goes on to the end.
        let end = match bounds.len() == 1 && !steps.is_empty() {
            true => self.highest,
            false => end,
        };
        let (lowest, highest) = (self.lowest, self.highest);
        if start < lowest {
            return Err(format!(
                "beginning of range ({start}) below minimum ({lowest}): {range}"
            ));
        }
        if end > highest {
            return Err(format!(
                "end of range ({end}) above maximum ({highest}): {range}"
            ));
        }
        if start > end {
            return Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {range}"
            ));
        }
        match step {
            0 => Err(format!(
                "step of range should be a positive number: {range}"
            )),
            _ => Ok(()),
        }
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let name = text.to_lowercase();
        let named = (self.lowest..)
            .zip(self.names)
            .find(|(_, one)| **one == name);
        match named {
            Some((value, _)) => Ok(value),
            None => number(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        let check = |schedule: &str, expected: &str| {
            let fault = check(schedule).err().unwrap_or_default();
            assert_eq!(fault, expected, "{schedule}");
        };
        for schedule in [
            "* * * * *",
            "*/5 0-6/2 1,15 * *",
            "0 0 31 2 *",
            "0 0 * jan mon-FRI",
            "0 0 ? * *",
            "5/10 * * * *",
            "@daily",
            "@every 1h30m",
            "@every 1.5s",
        ] {
            check(schedule, "");
        }
        // What the real server says.
        check("bad", "expected exactly 5 fields, found 1: [bad]");
        check(
            "* * * * * *",
            "expected exactly 5 fields, found 6: [* * * * * *]",
        );
        check("60 * * * *", "end of range (60) above maximum (59): 60");
        check("5-70 * * * *", "end of range (70) above maximum (59): 5-70");
        check("0 0 * * 7", "end of range (7) above maximum (6): 7");
        check(
            "1-0 * * * *",
            "beginning of range (1) beyond end of range (0): 1-0",
        );
        check(
            "1,2,x * * * *",
            "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
        );
        check(
            "*/0 * * * *",
            "step of range should be a positive number: */0",
        );
        check("@foo", "unrecognized descriptor: @foo");
        check(
            "@every x",
            "failed to parse duration @every x: time: invalid duration \"x\"",
        );
        // By the library's source.
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check("1-2-3 * * * *", "too many hyphens: 1-2-3");
        check("*/1/2 * * * *", "too many slashes: */1/2");
        check(
            "@every 5",
            "failed to parse duration @every 5: time: missing unit in duration \"5\"",
        );
        check(
            "@every 5y",
            "failed to parse duration @every 5y: time: unknown unit \"y\" in duration \"5y\"",
        );
    }
}
