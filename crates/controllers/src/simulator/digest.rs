//! Numbers, names and addresses that follow from a text, and are the same every time. Pure.

use std::net::Ipv4Addr;

use serde_json::Value;

/// Letters and digits that spell no words, as Kubernetes uses them in names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Hosts of a network of 256 addresses, without the first and the last.
const HOSTS: u64 = 254;
/// The networks that are kept for documentation (RFC 5737).
const DOCUMENTATION: [[u8; 3]; 3] = [[203, 0, 113], [198, 51, 100], [192, 0, 2]];

/// FNV-1a: does not change from build to build, as hashers of the standard library may.
pub(super) fn of(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    // Otherwise its low bits would depend on the low bits of the bytes alone.
    hash ^ (hash >> 32)
}

/// Ten letters for the content of a template, as in names of ReplicaSets and revisions.
pub(super) fn of_template(template: &Value) -> String {
    letters(&template.to_string(), 10)
}

/// So many letters that follow from a text.
pub(super) fn letters(text: &str, count: usize) -> String {
    let mut hash = of(text);
    let mut letter = || {
        let digit = hash % ALPHABET.len() as u64;
        hash /= ALPHABET.len() as u64;
        char::from(ALPHABET[usize::try_from(digit).unwrap_or_default()])
    };
    (0..count).map(|_| letter()).collect()
}

/// The address of a Pod, in 10.244.0.0/16.
pub(super) fn pod_address(uid: &str) -> Ipv4Addr {
    let hash = of(uid);
    Ipv4Addr::new(10, 244, byte(hash / HOSTS), host(hash))
}

/// An address that the outside may use, in a network that nobody has.
pub(super) fn outer_address(uid: &str) -> Ipv4Addr {
    let hash = of(uid);
    let network = usize::from(byte(hash / HOSTS)) % DOCUMENTATION.len();
    let [a, b, c] = DOCUMENTATION[network];
    Ipv4Addr::new(a, b, c, host(hash))
}

fn host(hash: u64) -> u8 {
    byte(hash % HOSTS + 1)
}

/// The lowest byte.
fn byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_follows_from_a_text_is_known() {
        let uid = "7d8c3c1e-3f4e-4c9f-9a31-0f6f8f0f6b0a";
        let seen = [
            pod_address(uid).to_string(),
            outer_address(uid).to_string(),
            of_template(&json!({"spec": {"containers": []}})),
        ];
        assert_eq!(seen, ["10.244.212.214", "192.0.2.214", "s25l6kks7c"]);
    }

    #[test]
    fn addresses_are_of_hosts_and_differ() {
        let uids = (0..1000).map(|number| format!("uid-{number}"));
        let pods: std::collections::BTreeSet<_> =
            uids.clone().map(|uid| pod_address(&uid)).collect();
        assert!(pods.len() > 980, "{}", pods.len());
        for uid in uids {
            let [a, b, c, d] = outer_address(&uid).octets();
            assert!(
                DOCUMENTATION.contains(&[a, b, c]) && (1..=254).contains(&d),
                "{uid}"
            );
        }
    }
}
