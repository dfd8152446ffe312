//! Networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value as Json;

use super::ip::{self, Ip};
use crate::cost::Cost;
use crate::env::Row;
use crate::eval::{Outcome, no_overload};
use crate::fault::Fault;
use crate::host::Opaque;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::Value;

pub(in crate::library) const TABLES: &[&[Row]] = &[ROWS];
pub(in crate::library) const TYPE: &str = "net.CIDR";

const ROWS: &[Row] = &[
    Row::new(
        "cidr",
        "string_to_cidr",
        "(string) -> net.CIDR",
        Cost::Parse,
        cidr,
    ),
    Row::new(
        "isCIDR",
        "is_cidr",
        "(string) -> bool",
        Cost::Parse,
        is_cidr,
    ),
    Row::new(
        "containsIP",
        "cidr_contains_ip_string",
        "net.CIDR.(string) -> bool",
        Cost::ContainsIpString,
        contains_ip,
    ),
    Row::new(
        "containsIP",
        "cidr_contains_ip_ip",
        "net.CIDR.(net.IP) -> bool",
        Cost::ContainsIp,
        contains_ip,
    ),
    Row::new(
        "containsCIDR",
        "cidr_contains_cidr_string",
        "net.CIDR.(string) -> bool",
        Cost::ContainsCidrString,
        contains_cidr,
    ),
    Row::new(
        "containsCIDR",
        "cidr_contains_cidr",
        "net.CIDR.(net.CIDR) -> bool",
        Cost::ContainsCidr,
        contains_cidr,
    ),
    Row::new(
        "ip",
        "cidr_ip",
        "net.CIDR.() -> net.IP",
        Cost::Unit,
        address,
    ),
    Row::new(
        "prefixLength",
        "cidr_prefix_length",
        "net.CIDR.() -> int",
        Cost::Unit,
        prefix_length,
    ),
    Row::new(
        "masked",
        "cidr_masked",
        "net.CIDR.() -> net.CIDR",
        Cost::Unit,
        masked,
    ),
    Row::new(
        "string",
        "cidr_to_string",
        "(net.CIDR) -> string",
        Cost::Unit,
        to_string,
    ),
];

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Opaque for Cidr {
    fn ty(&self) -> Type {
        Type::opaque(TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> Result<bool, Box<Fault>> {
        let other: &dyn std::any::Any = other;
        Ok(other.downcast_ref::<Self>() == Some(self))
    }

    fn cost_size(&self) -> u64 {
        u64::from(self.bits).div_ceil(8)
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn to_json(&self) -> Option<Json> {
        self.text().map(Json::String)
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

// === impl Cidr ===

impl Cidr {
    fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("network address parse error during conversion from string: {text:?}");
        let (address, bits) = text.rsplit_once('/').ok_or_else(bad)?;
        let plain = bits.len() <= 3 && bits.bytes().all(|byte| byte.is_ascii_digit());
        if !plain || (bits.len() > 1 && bits.starts_with('0')) {
            return Err(bad());
        }
        let address = ip::parse(address)?;
        let bits: u8 = bits.parse().map_err(|_| bad())?;
        let most = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        if bits > most {
            return Err(bad());
        }
        Ok(Self { address, bits })
    }

    /// The network's first address, were it cut to `bits`.
    fn first(address: IpAddr, bits: u8) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(bits.min(32)))
                    .unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(bits.min(128)))
                    .unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }

    fn contains(self, other: IpAddr) -> bool {
        self.address.is_ipv4() == other.is_ipv4()
            && Self::first(self.address, self.bits) == Self::first(other, self.bits)
    }
}

fn cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match Cidr::parse(text.as_str()) {
            Ok(cidr) => Ok(Value::opaque(cidr)),
            Err(why) => Err(Fault::invalid(why)),
        },
        _ => Err(no_overload("cidr", args)),
    }
}

fn is_cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(Cidr::parse(text.as_str()).is_ok())),
        _ => Err(no_overload("isCIDR", args)),
    }
}

fn network(name: &str, args: &[Value<'_>]) -> Result<Cidr, Box<Fault>> {
    match args.first().and_then(Value::as_opaque::<Cidr>) {
        Some(cidr) => Ok(*cidr),
        None => Err(no_overload(name, args)),
    }
}

fn contains_ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let network = network("containsIP", args)?;
    let other = match args {
        [_, Value::String(text)] => ip::parse(text.as_str()).map_err(Fault::invalid)?,
        [_, other] => match other.as_opaque::<Ip>() {
            Some(ip) => ip.0,
            None => return Err(no_overload("containsIP", args)),
        },
        _ => return Err(no_overload("containsIP", args)),
    };
    Ok(Value::Bool(network.contains(other)))
}

fn contains_cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let network = network("containsCIDR", args)?;
    let other = match args {
        [_, Value::String(text)] => Cidr::parse(text.as_str()).map_err(Fault::invalid)?,
        [_, other] => match other.as_opaque::<Cidr>() {
            Some(cidr) => *cidr,
            None => return Err(no_overload("containsCIDR", args)),
        },
        _ => return Err(no_overload("containsCIDR", args)),
    };
    Ok(Value::Bool(
        network.bits <= other.bits && network.contains(other.address),
    ))
}

fn address<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::opaque(Ip(network("ip", args)?.address)))
}

fn prefix_length<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(i64::from(network("prefixLength", args)?.bits)))
}

fn masked<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let network = network("masked", args)?;
    Ok(Value::opaque(Cidr {
        address: Cidr::first(network.address, network.bits),
        bits: network.bits,
    }))
}

fn to_string<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::string(network("string", args)?.to_string()))
}
