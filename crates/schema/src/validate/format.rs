//! The values of `format` that are checked. Others are ignored, as Kubernetes ignores them.

mod net;
mod numbers;
mod time;

use deltaplane_api::names;

use crate::node::Kind;

/// A format that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Double,
    Duration,
    Email,
    Float,
    HexColor,
    Hostname,
    Int32,
    Int64,
    Ipv4,
    Ipv6,
    Isbn,
    Isbn10,
    Isbn13,
    LongName,
    Mac,
    Password,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
}

// === impl Format ===

impl Format {
    /// The format `name`, if it is one that applies to values of `kind`. Dashes do not count.
    pub(crate) fn named(name: &str, kind: Kind) -> Option<Self> {
        match kind {
            Kind::Any | Kind::String | Kind::IntOrString => Self::of_text(&name.replace('-', "")),
            Kind::Integer => match name {
                "int32" => Some(Self::Int32),
                "int64" => Some(Self::Int64),
                _ => None,
            },
            Kind::Number => match name {
                "float" => Some(Self::Float),
                "double" => Some(Self::Double),
                _ => None,
            },
            Kind::Object | Kind::Array | Kind::Boolean | Kind::Quantity => None,
        }
    }

    fn of_text(name: &str) -> Option<Self> {
        Some(match name {
            "bsonobjectid" => Self::BsonObjectId,
            "byte" => Self::Byte,
            "cidr" => Self::Cidr,
            "creditcard" => Self::CreditCard,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "email" => Self::Email,
            "hexcolor" => Self::HexColor,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "k8slongname" => Self::LongName,
            "k8sshortname" => Self::ShortName,
            "mac" => Self::Mac,
            "password" => Self::Password,
            "rgbcolor" => Self::RgbColor,
            "ssn" => Self::Ssn,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            _ => return None,
        })
    }

    /// Whether `text` is written in this format. Formats of numbers say nothing about text.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|c| c.is_ascii_hexdigit()),
            Self::Byte => numbers::base64(text),
            Self::Cidr => net::cidr(text),
            Self::CreditCard => numbers::credit_card(text),
            Self::Date => time::date(text),
            Self::DateTime => time::date_time(text),
            Self::Duration => time::duration(text),
            Self::Email => net::email(text),
            Self::HexColor => numbers::hex_color(text),
            Self::Hostname => net::hostname(text),
            Self::Ipv4 => text.contains('.') && net::ip(text).is_some(),
            Self::Ipv6 => text.contains(':') && net::ip(text).is_some(),
            Self::Isbn => numbers::isbn10(text) || numbers::isbn13(text),
            Self::Isbn10 => numbers::isbn10(text),
            Self::Isbn13 => numbers::isbn13(text),
            Self::LongName => names::dns_subdomain(text).is_empty(),
            Self::ShortName => names::dns_label(text).is_empty(),
            Self::Mac => net::mac(text),
            Self::RgbColor => numbers::rgb_color(text),
            Self::Ssn => numbers::ssn(text),
            Self::Uri => net::request_uri(text),
            Self::Uuid => numbers::uuid(text, None),
            Self::Uuid3 => numbers::uuid(text, Some(b'3')),
            Self::Uuid4 => numbers::uuid(text, Some(b'4')),
            Self::Uuid5 => numbers::uuid(text, Some(b'5')),
            Self::Password | Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
        }
    }

    /// Whether this is a format of text.
    pub(crate) fn is_text(self) -> bool {
        !matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, valid: &[&str], invalid: &[&str]) {
        let format = Format::named(name, Kind::String).unwrap();
        for text in valid {
            assert!(format.accepts(text), "{name} {text}");
        }
        for text in invalid {
            assert!(!format.accepts(text), "{name} {text}");
        }
    }

    #[test]
    fn network_formats() {
        check(
            "ipv4",
            &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"],
            &["1.2.3", "1.2.3.256", "::1"],
        );
        check("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "fe80::1%eth0"]);
        check(
            "cidr",
            &["10.0.0.0/8", "::1/128"],
            &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1"],
        );
        check(
            "mac",
            &["01:02:03:04:05:06", "0102.0304.0506"],
            &["01:02", "01:02:03:04:05:0g"],
        );
        check(
            "hostname",
            &["a", "example.com", "a-b.example.com"],
            &["", "-a", "a..b", "a_b.c"],
        );
        check(
            "email",
            &["a@b.c", "A B <a@b>"],
            &["a", "@b", "a@", "a b@c"],
        );
        check(
            "uri",
            &["/a", "http://a.b/c?d", "urn:x"],
            &["", "a", "http://a b/", "/%zz", ":a"],
        );
    }

    #[test]
    fn time_formats() {
        check(
            "date",
            &["2024-02-29"],
            &["2023-02-29", "2024-2-1", "2024-13-01"],
        );
        check(
            "date-time",
            &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
            &["2014-12-15"],
        );
        check(
            "datetime",
            &["2014-12-15T19:30:20Z"],
            &["2014-12-15T24:30:20Z", "2014-12-15T19:30Z"],
        );
        check(
            "duration",
            &["1h", "1.5s", "-2m", "0", "2 days", "3 weeks"],
            &["", "1", "x", "1 parsec"],
        );
    }

    #[test]
    fn other_formats() {
        check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]);
        check("byte", &["aGk=", "aGVsbG8h"], &["", "aGk", "a==="]);
        check(
            "uuid",
            &[
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                "6BA7B8109DAD11D180B400C04FD430C8",
            ],
            &["6ba7"],
        );
        check(
            "uuid4",
            &["e58ed763-928c-4155-bee9-fdbaaadc15f3"],
            &["6ba7b810-9dad-11d1-80b4-00c04fd430c8"],
        );
        check(
            "isbn",
            &["0321751043", "978-0321751041"],
            &["0321751042", "x"],
        );
        check(
            "creditcard",
            &["4111-1111-1111-1111"],
            &["4111111111111112", "1"],
        );
        check("ssn", &["111-11-1111", "111111111"], &["111-111-111"]);
        check("hexcolor", &["#fff", "A1B2C3"], &["#ff", "#ggg"]);
        check(
            "rgbcolor",
            &["rgb(1,2,255)", "rgb( 1 , 2 , 3 )"],
            &["rgb(1,2,256)", "rgb(1,2)", "rgb(01,2,3)"],
        );
        check("k8s-short-name", &["a-b"], &["a.b", "A"]);
        check("k8s-long-name", &["a.b"], &["a..b"]);
        assert_eq!(Format::named("int32", Kind::Integer), Some(Format::Int32));
        assert_eq!(Format::named("int32", Kind::String), None);
        assert_eq!(Format::named("teapot", Kind::String), None);
    }
}
