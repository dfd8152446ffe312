//! Addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value as Json;

use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::host::Opaque;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::Value;

pub(in crate::library) const TABLES: &[&[Row]] = &[ROWS, &[IP]];
/// In the words of the specification: an IPv4 address written as an IPv6 one is the former.
pub(in crate::library) const SPEC: &[&[Row]] = &[ROWS, &[SPEC_IP]];
pub(in crate::library) const TYPE: &str = "net.IP";

const IP: Row = Row::new("ip", "string_to_ip", "(string) -> net.IP", Cost::Parse, ip);
const SPEC_IP: Row = Row::new(
    "ip",
    "string_to_ip",
    "(string) -> net.IP",
    Cost::Parse,
    unmapped_ip,
);

const ROWS: &[Row] = &[
    Row::new("isIP", "is_ip", "(string) -> bool", Cost::Parse, is_ip),
    Row::new(
        "ip.isCanonical",
        "ip_is_canonical",
        "(string) -> bool",
        Cost::ParseTwice,
        is_canonical,
    ),
    Row::new(
        "family",
        "ip_family",
        "net.IP.() -> int",
        Cost::Unit,
        family,
    ),
    Row::new(
        "isUnspecified",
        "ip_is_unspecified",
        "net.IP.() -> bool",
        Cost::Unit,
        is_unspecified,
    ),
    Row::new(
        "isLoopback",
        "ip_is_loopback",
        "net.IP.() -> bool",
        Cost::Unit,
        is_loopback,
    ),
    Row::new(
        "isLinkLocalMulticast",
        "ip_is_link_local_multicast",
        "net.IP.() -> bool",
        Cost::Unit,
        is_link_local_multicast,
    ),
    Row::new(
        "isLinkLocalUnicast",
        "ip_is_link_local_unicast",
        "net.IP.() -> bool",
        Cost::Unit,
        is_link_local_unicast,
    ),
    Row::new(
        "isGlobalUnicast",
        "ip_is_global_unicast",
        "net.IP.() -> bool",
        Cost::Unit,
        is_global_unicast,
    ),
    Row::new(
        "string",
        "ip_to_string",
        "(net.IP) -> string",
        Cost::Unit,
        to_string,
    ),
];

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ip(pub(super) IpAddr);

impl Opaque for Ip {
    fn ty(&self) -> Type {
        Type::opaque(TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> Result<bool, Box<Fault>> {
        let other: &dyn std::any::Any = other;
        Ok(other.downcast_ref::<Self>() == Some(self))
    }

    fn cost_size(&self) -> u64 {
        match self.0 {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 16,
        }
    }

    fn text(&self) -> Option<String> {
        Some(self.0.to_string())
    }

    fn to_json(&self) -> Option<Json> {
        self.text().map(Json::String)
    }
}

/// Reads an address: no zone, and no IPv4 address in the clothes of an IPv6 one.
pub(super) fn parse(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!(
            "IP address {text:?} with zone value is not allowed"
        ));
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(format!(
            "IP Address {text:?} parse error during conversion from string"
        )),
    }
}

fn ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match parse(text.as_str()) {
            Ok(address) => Ok(Value::opaque(Ip(address))),
            Err(why) => Err(Fault::invalid(why)),
        },
        _ => Err(no_overload("ip", args)),
    }
}

/// Like [`ip`], but a mapped address without dots is the IPv4 address that it maps.
fn unmapped_ip<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    if let [Value::String(text)] = args
        && !text.as_str().contains('.')
        && let Ok(IpAddr::V6(address)) = text.as_str().parse()
        && let Some(mapped) = address.to_ipv4_mapped()
    {
        return Ok(Value::opaque(Ip(IpAddr::V4(mapped))));
    }
    ip(meter, args)
}

fn is_ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse(text.as_str()).is_ok())),
        _ => Err(no_overload("isIP", args)),
    }
}

fn is_canonical<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match parse(text.as_str()) {
            Ok(address) => Ok(Value::Bool(address.to_string() == text.as_str())),
            Err(why) => Err(Fault::invalid(why)),
        },
        _ => Err(no_overload("ip.isCanonical", args)),
    }
}

fn address(name: &str, args: &[Value<'_>]) -> Result<IpAddr, Box<Fault>> {
    match args {
        [value] => match value.as_opaque::<Ip>() {
            Some(ip) => Ok(ip.0),
            None => Err(no_overload(name, args)),
        },
        _ => Err(no_overload(name, args)),
    }
}

fn family<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(match address("family", args)? {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    }))
}

fn is_unspecified<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(
        address("isUnspecified", args)?.is_unspecified(),
    ))
}

fn is_loopback<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(address("isLoopback", args)?.is_loopback()))
}

fn is_link_local_multicast<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(match address("isLinkLocalMulticast", args)? {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }))
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_unicast<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(link_local(address(
        "isLinkLocalUnicast",
        args,
    )?)))
}

fn is_global_unicast<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let address = address("isGlobalUnicast", args)?;
    let special = match address {
        IpAddr::V4(address) => address == Ipv4Addr::UNSPECIFIED || address == Ipv4Addr::BROADCAST,
        IpAddr::V6(address) => address == Ipv6Addr::UNSPECIFIED,
    };
    let other = address.is_loopback() || address.is_multicast() || link_local(address);
    Ok(Value::Bool(!special && !other))
}

fn to_string<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::string(address("string", args)?.to_string()))
}
