//! Lists of endpoints: both formats read back what was written, and arbitrary or truncated text does not
//! panic.

use evenkeel_config::endpoint_list;
use evenkeel_config::printable::is_hidden;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

/// Address, weight, priority, drain, zone.
type Row = (SocketAddr, u16, u8, bool, Option<String>);

fn row() -> impl Strategy<Value = Row> {
    let addr = (any::<[u8; 4]>(), 1..=u16::MAX).prop_map(|(ip, port)| SocketAddr::new(IpAddr::from(ip), port));
    let addr = addr.prop_filter("nothing can be reached there", |addr| !addr.ip().is_unspecified());
    // Quotes, braces and control characters too, except those that labels reject.
    let label = "\\PC{1,20}".prop_filter("no label has these", |label: &String| !label.chars().any(is_hidden));
    let zone = prop::option::of(label);
    (addr, any::<u16>(), 0u8..16, any::<bool>(), zone)
}

fn json(rows: &[Row]) -> String {
    let one = |(addr, weight, priority, drain, zone): &Row| {
        let mut row = serde_json::json!({ "addr": addr, "weight": weight, "priority": priority, "drain": drain });
        zone.iter().for_each(|zone| row["zone"] = zone.as_str().into());
        row
    };
    serde_json::json!({ "endpoints": rows.iter().map(one).collect::<Vec<_>>() }).to_string()
}

fn toml(rows: &[Row]) -> String {
    let one = |(addr, weight, priority, drain, zone): &Row| {
        // A JSON string is also a TOML string.
        let zone = zone.as_ref().map_or(String::new(), |zone| format!("zone = {}\n", serde_json::json!(zone)));
        format!("[[endpoints]]\naddr = \"{addr}\"\nweight = {weight}\npriority = {priority}\ndrain = {drain}\n{zone}")
    };
    rows.iter().map(one).collect()
}

proptest! {
    #[test]
    fn a_list_reads_as_what_was_written(rows in prop::collection::vec(row(), 1..20)) {
        let mut addrs: Vec<SocketAddr> = rows.iter().map(|row| row.0).collect();
        addrs.sort_unstable();
        addrs.dedup();
        let (read, same) = (endpoint_list("a.json", &json(&rows)), endpoint_list("a.toml", &toml(&rows)));
        prop_assert_eq!(read.as_ref().ok(), same.as_ref().ok());
        if addrs.len() < rows.len() {
            prop_assert!(read.is_err(), "an address twice");
            return Ok(());
        }
        let read: Vec<Row> = read.expect("a good list").into_iter().map(|e| {
            let evenkeel_config::plan::Address::Ip(addr) = e.addr else { panic!("{} is a name", e.addr) };
            (addr, e.weight, e.priority, e.drain, e.zone.map(|zone| zone.to_string()))
        }).collect();
        prop_assert_eq!(read, rows);
    }

    #[test]
    fn a_list_in_json_that_is_cut_is_no_list(rows in prop::collection::vec(row(), 1..5), cut in any::<prop::sample::Index>()) {
        let whole = json(&rows);
        let part: String = whole.chars().take(cut.index(whole.chars().count())).collect();
        prop_assert!(endpoint_list("a.json", &part).is_err(), "{}", part);
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", rows in prop::collection::vec(row(), 0..3), cut in any::<prop::sample::Index>()) {
        for whole in [json(&rows), toml(&rows)] {
            let at = cut.index(whole.chars().count() + 1);
            let (before, after): (String, String) = (whole.chars().take(at).collect(), whole.chars().skip(at).collect());
            for text in [&text, &format!("{before}{text}{after}")] {
                let _ = (endpoint_list("a.toml", text), endpoint_list("a.json", text));
            }
        }
    }
}
