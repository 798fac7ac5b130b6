//! Keys with values that mean harm: each costs itself.

use super::keys::{Keys, Step};
use super::messages::{Event, EventType, KeyValue, WatchResponse};
use crate::hostile::{Dice, odd, seeds};
use crate::kept::{Answer, Kept};
use evenkeel_config::{endpoints_from_toml, endpoints_to_toml};
use serde_json::json;
use std::time::Duration;

/// Watches of the test of every day.
const WATCHES: u64 = 400;

/// A key below the prefix, or beside it, with a value.
fn hostile(dice: &mut Dice, n: usize) -> KeyValue {
    let mut entry = json!({ "addr": format!("10.6.6.{n}:80"), "weight": 3, "zone": "a", "name": "evil" });
    for _ in 0..dice.below(3) {
        let depth = dice.below(3);
        dice.harm(&mut entry, depth);
    }
    let at = dice.below(30);
    let mut value = match dice.below(4) {
        0 => odd(at).as_str().unwrap_or("10.0.0.1").to_owned().into_bytes(),
        _ => entry.to_string().into_bytes(),
    };
    if dice.once_in(6) {
        let cut = dice.below(value.len() + 1);
        value.truncate(cut);
        value.push(0xff);
    }
    let mut key = match dice.below(4) {
        0 => format!("/web/{}", odd(at).as_str().unwrap_or_default()),
        1 => "/web".to_owned(),
        _ => format!("/web/evil-{n}"),
    };
    key.push_str(if dice.once_in(5) { "\u{0}" } else { "" });
    KeyValue { key: key.into_bytes(), value }
}

#[test]
fn keys_that_mean_harm_cost_themselves() {
    seeds(WATCHES, |seed| {
        let mut dice = Dice::new(seed);
        let innocent = ["10.0.0.1:80", "{\"addr\": \"10.0.0.2:80\", \"weight\": 3}"];
        let innocent = innocent.iter().enumerate();
        let innocent = innocent.map(|(n, value)| KeyValue { key: format!("/web/0{n}").into(), value: (*value).into() });
        let mut keys = Keys::of(b"/web/", innocent.collect());
        let before = keys.list();
        assert_eq!((before.endpoints.len(), before.skipped.len()), (2, 0));
        let mut kept = Kept::default();
        kept.take(Answer::List(before.clone()), Duration::ZERO, false);
        let mut there = std::collections::BTreeSet::new();
        for n in 0..dice.below(12) {
            let kv = hostile(&mut dice, n);
            there.insert(kv.key.clone());
            let events = vec![Event { r#type: EventType::Put as i32, kv: Some(kv) }, Event { r#type: 7, kv: None }];
            assert_eq!(keys.apply(WatchResponse { events, ..WatchResponse::default() }), Step::Changed);
        }
        let list = keys.list();
        assert_eq!(list.endpoints.len() + list.skipped.len(), 2 + there.len(), "seed {seed}");
        for one in &list.endpoints {
            let again = endpoints_from_toml(&endpoints_to_toml(std::slice::from_ref(one)));
            assert_eq!(again, std::slice::from_ref(one), "seed {seed}");
        }
        kept.take(Answer::List(list), Duration::ZERO, false);
        assert_eq!(kept.endpoints().get(..2), Some(&before.endpoints[..]), "seed {seed}");
    });
}
