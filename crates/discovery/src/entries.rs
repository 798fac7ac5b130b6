//! Entries of a list that a registry gives as JSON: each is read by itself, so that a bad one is named and left out.

use crate::guard::networks::is_no_machine;
use crate::kept::List;
use evenkeel_config::endpoint_list;
use evenkeel_config::plan::{Address, Endpoint};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Longest name of an endpoint, in characters.
const NAME_MAX: usize = 128;

/// Bytes of an entry that stand in for its name, if it cannot be read.
const QUOTED: usize = 60;

/// Reads an array of entries. `read` returns the endpoint of one, `None` for one that is not meant, or the reason why it
/// is left out.
///
/// # Errors
/// The text is not an array.
pub fn entries<T: DeserializeOwned>(
    text: &[u8],
    read: impl FnMut(T) -> Result<Option<Endpoint>, String>,
) -> Result<List, String> {
    let all: Vec<&RawValue> =
        serde_json::from_slice(text).map_err(|error| format!("it gave no JSON array: {error}"))?;
    Ok(each(&all, read))
}

/// Reads entries that are known to be JSON.
pub fn each<T: DeserializeOwned>(
    all: &[&RawValue],
    mut read: impl FnMut(T) -> Result<Option<Endpoint>, String>,
) -> List {
    let mut list = List::default();
    for raw in all {
        let read = serde_json::from_str(raw.get()).map_err(|error| error.to_string()).and_then(&mut read);
        match read {
            Ok(Some(endpoint)) => list.endpoints.push(endpoint),
            Ok(None) => {}
            Err(why) => list.skipped.push(format!("{}: {why}", quoted(raw.get()))),
        }
    }
    list
}

/// Beginning of an entry, on one line.
pub fn quoted(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTED).collect();
    if text.chars().nth(QUOTED).is_some() {
        line.push_str("...");
    }
    line
}

/// Address of an endpoint.
///
/// # Errors
/// The host is a name or no address, or the port is none.
pub fn address(host: &str, port: u64) -> Result<SocketAddr, String> {
    let ip: IpAddr = host.parse().map_err(|_| match host {
        "" => "it has no address".to_owned(),
        name => format!("{name:?} is not an IP address"),
    })?;
    if is_no_machine(ip.to_canonical()) {
        return Err(format!("{ip} is not the address of one machine"));
    }
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok(SocketAddr::new(ip.to_canonical(), port)),
        _ => Err(format!("{port} is not a port")),
    }
}

/// Endpoint at an address, by a name that stays when the address changes; by its address if no endpoint can have that name.
pub fn endpoint(name: &str, addr: SocketAddr) -> Endpoint {
    let named = if is_name(name) { name.into() } else { addr.to_string().into() };
    Endpoint { name: named, addr: Address::Ip(addr), ..Endpoint::at(addr) }
}

/// True if an endpoint can have this name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= NAME_MAX && name.chars().all(|c| !c.is_control() && !c.is_whitespace())
}

/// Endpoint of an entry like those of `endpoints` of a pool.
///
/// # Errors
/// The first reason that the configuration would report.
pub fn of_pool(entry: &Value) -> Result<Endpoint, String> {
    let text = Value::Array(vec![entry.clone()]).to_string();
    let one = endpoint_list("the list.json", &text);
    let one = one.map_err(|wrong| wrong.first().map_or_else(String::new, |first| first.message.clone()))?;
    one.into_iter().next().ok_or_else(|| "this is not an endpoint".to_owned())
}

/// Zone of an endpoint; `None` if it is empty.
///
/// # Errors
/// No endpoint can have this zone.
pub fn zone(zone: &str) -> Result<Option<Arc<str>>, String> {
    match zone {
        "" => Ok(None),
        zone if is_name(zone) => Ok(Some(zone.into())),
        zone => Err(format!("{:?} is not a zone: it has up to {NAME_MAX} visible characters", quoted(zone))),
    }
}

/// Weight of an endpoint.
///
/// # Errors
/// The weight is larger than endpoints can have.
pub fn weight(weight: u64) -> Result<u16, String> {
    u16::try_from(weight).map_err(|_| format!("weight {weight} is not from 0 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Entry {
        host: String,
        port: u64,
    }

    #[test]
    fn bad_entries_are_named_and_the_others_count() {
        let text = br#"[{"host":"10.0.0.1","port":1},{"host":"10.0.0.1","port":0},{"host":"a.inside","port":1},
            {"host":"::","port":1},{"host":"","port":1},{"port":1},7,{"host":"fd00::1","port":65535},{"host":"10.0.0.1","port":65536}]"#;
        let read = |entry: Entry| Ok(Some(endpoint("", address(&entry.host, entry.port)?)));
        let list = entries(text, read).expect("an array");
        let names: Vec<&str> = list.endpoints.iter().map(|e| &*e.name).collect();
        assert_eq!(names, ["10.0.0.1:1", "[fd00::1]:65535"]);
        let reasons = [
            "0 is not a port",
            "\"a.inside\" is not an IP address",
            ":: is not the address of one machine",
            "it has no address",
            "missing field `host`",
            "expected struct Entry",
            "65536 is not a port",
        ];
        assert_eq!(list.skipped.len(), reasons.len());
        for (why, reason) in list.skipped.iter().zip(reasons) {
            assert!(why.contains(reason), "{why}: {reason}");
        }
        for text in ["", "{}", "null", "[", "[1,]"] {
            assert!(entries(text.as_bytes(), |_: u8| Ok(None)).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_quoted_is_short_and_on_one_line() {
        let text = format!("{{\n\"a\":\"{}\"}}", "x".repeat(100));
        assert!(quoted(&text).len() <= QUOTED + 3 && !quoted(&text).contains('\n'));
    }

    #[test]
    fn names_that_endpoints_cannot_have_become_addresses() {
        let addr = "10.0.0.1:1".parse().expect("an address");
        for (name, named) in
            [("a", "a"), ("", "10.0.0.1:1"), ("a b", "10.0.0.1:1"), (&"a".repeat(129)[..], "10.0.0.1:1")]
        {
            assert_eq!(&*endpoint(name, addr).name, named);
        }
    }
}
