//! Values of a seed that readers might choke on, for tests of objects, resources and registries that mean harm.
//!
//! `EVENKEEL_HOSTILE_SECONDS` has each of these tests run on, with seeds of the clock, which it names when it fails.

use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime};

/// Checks the seeds below `count`, and further seeds for the time in `EVENKEEL_HOSTILE_SECONDS`.
pub fn seeds(count: u64, mut check: impl FnMut(u64)) {
    (0..count).for_each(&mut check);
    let Some(seconds) = std::env::var("EVENKEEL_HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok()) else {
        return;
    };
    let (until, mut done) = (Instant::now() + Duration::from_secs(seconds), 0u64);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    while Instant::now() < until {
        check(clock.as_nanos() as u64 + done);
        done += 1;
    }
    println!("{done} seeds");
}

/// Texts that something might choke on.
pub fn odd(at: usize) -> Value {
    let long = |n: usize| "x".repeat(n);
    match at {
        0 => json!(long(64)),
        1 => json!(long(300)),
        2 => json!(long(70_000)),
        3 => json!(format!("{}.{}", long(63), long(63))),
        4 => json!("a\"b]c[0].d\\"),
        5 => json!("${HOME}"),
        6 => json!("{client.ip}{{}{nothing}"),
        7 => json!("a\nb\u{0}\u{7f}\u{202e}"),
        8 => json!("((((((((((a*)*)*)*)*)*)*)*)*)*"),
        9 => json!("[[::]:80"),
        10 => json!("http://[::1]:0/"),
        11 => json!(format!("http://{}/", long(64))),
        12 => json!(""),
        13 => json!("*"),
        14 => json!("shop.web.80"),
        15 => json!("18446744073709551616"),
        16 => json!(0),
        17 => json!(-1),
        18 => json!(65_535),
        19 => json!(70_000),
        20 => json!(1.5e300),
        21 => json!(null),
        22 => json!(true),
        23 => json!([]),
        24 => json!({}),
        25 => json!("port-80"),
        26 => json!("web"),
        27 => json!("/"),
        28 => json!("999h"),
        _ => json!("-"),
    }
}

/// Random numbers of a seed.
pub struct Dice {
    state: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice { state: seed }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Replaces, removes or repeats a value, `depth` below this or earlier.
    pub fn harm(&mut self, value: &mut Value, depth: usize) {
        match value {
            Value::Object(map) if depth > 0 && !map.is_empty() => {
                let key = map.keys().nth(self.below(map.len())).expect("a key").clone();
                if self.once_in(12) {
                    map.remove(&key);
                } else if let Some(below) = map.get_mut(&key) {
                    self.harm(below, depth - 1);
                }
            }
            Value::Array(all) if depth > 0 && !all.is_empty() => {
                let at = self.below(all.len());
                if self.once_in(8) {
                    let one = all[at].clone();
                    let times = self.pick(&[1, 2, 20, 40]);
                    all.extend(std::iter::repeat_n(one, times));
                } else {
                    self.harm(&mut all[at], depth - 1);
                }
            }
            Value::Null if depth > 0 => {}
            value => {
                let at = self.below(30);
                *value = odd(at);
            }
        }
    }
}
