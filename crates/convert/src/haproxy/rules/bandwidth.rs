//! `filter bwlim-in` and `bwlim-out`, with the rules that turn them on, as `bandwidth` of routes. Source: HAProxy 2.7,
//! flt_bwlim.c. There a limit holds for each stream, or for all that share an entry of a stick-table; bodies alone count.

use super::effect::{Rules, Scope, filter};
use crate::haproxy::lexer::Item;
use crate::haproxy::logic::Conj;
use crate::haproxy::time::milliseconds;
use crate::ledger::Ledger;
use crate::model::{Draft, parse_size, size};

/// Bounds of the keys of `bandwidth`, in bytes a second.
const BOUNDS: (u64, u64) = (1 << 10, 1 << 40);

/// The setting to write where a limit is not carried over.
const BY_HAND: &str = "bandwidth = { download = \"50MB\", download_per_connection = \"2MB\" } in a [[route]]";

/// A bandwidth limit of a section.
struct Limit<'i> {
    is_upload: bool,
    words: &'i [String],
}

/// True for a filter that limits bandwidth.
pub(crate) fn is_filter(item: &Item) -> bool {
    item.word(0) == "filter" && matches!(item.word(1), "bwlim-in" | "bwlim-out")
}

/// Settles limits that no rule has turned on.
pub(crate) fn unused(items: &[&Item], ledger: &mut Ledger) {
    for item in items.iter().filter(|item| is_filter(item) && !ledger.is_settled(item.line)).collect::<Vec<_>>() {
        ledger.dropped(item.line, "no rule that was carried over turns it on");
    }
}

/// `set-bandwidth-limit NAME`: the limit for the requests of the rule.
pub(crate) fn enable(
    item: &Item,
    words: &[String],
    conjs: &[Conj],
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let name = words.get(1).map_or("", String::as_str);
    let Some(declared) = scope.items.iter().find(|item| is_filter(item) && item.word(2) == name) else {
        return ledger.changes(item.line, format!("the section has no filter \"{name}\""), BY_HAND);
    };
    let limit = Limit { is_upload: declared.word(1) == "bwlim-in", words: declared.from(3) };
    let (is_shared, rate) = match limit.of_stream(words).or_else(|| limit.shared(scope, ledger)) {
        Some(Ok(found)) => found,
        Some(Err(reason)) => return ledger.changes(item.line, reason, BY_HAND),
        None => return ledger.changes(item.line, "the rate of its filter was not understood", BY_HAND),
    };
    let (least, most) = BOUNDS;
    let rate = if (least..=most).contains(&rate) {
        rate
    } else {
        let bound = rate.clamp(least, most);
        let reason = format!("{} a second is beyond the bounds: {} is kept", size(rate), size(bound));
        ledger.changes(declared.line, reason, "nothing, unless the difference matters");
        bound
    };
    ledger.carried(declared.line);
    let key = match (limit.is_upload, is_shared) {
        (true, true) => key!("bandwidth.upload"),
        (true, false) => key!("bandwidth.upload_per_connection"),
        (false, true) => key!("bandwidth.download"),
        (false, false) => key!("bandwidth.download_per_connection"),
    };
    filter(item, conjs, &Draft::one(key, size(rate)), rules, ledger);
    let reason = match is_shared {
        false => "the limit is of a connection: streams of HTTP/2 share it, and in HAProxy each has its own",
        true => "the limit is of each route: in HAProxy all streams share it for which the key is the same",
    };
    ledger.changes(declared.line, reason, "nothing, or another rate: bandwidth of the [[route]]");
}

/// True if all streams share the limit, and its bytes in a second.
type Found = Option<Result<(bool, u64), String>>;

impl Limit<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        word_after(self.words, name)
    }

    /// The limit of each stream, unless it is shared.
    fn of_stream(&self, rule: &[String]) -> Found {
        let default = self.value("default-limit")?;
        let own = |name: &str| word_after(rule, name);
        let (limit, period) =
            (own("limit").unwrap_or(default), own("period").or(self.value("default-period")).unwrap_or("1s"));
        let bytes = parse_size(&constant(limit).to_ascii_lowercase());
        let ms = milliseconds(constant(period));
        Some(match (bytes, ms.filter(|ms| *ms > 0)) {
            (Some(bytes), Some(ms)) => Ok((false, rate(bytes, ms))),
            _ => Err(format!("the limit `{limit}` over `{period}` is not constant")),
        })
    }

    /// The limit that all streams with the same value of the key share.
    fn shared(&self, scope: &Scope<'_>, ledger: &mut Ledger) -> Found {
        let (bytes, key) = (parse_size(&self.value("limit")?.to_ascii_lowercase())?, self.value("key")?);
        let name = key.split(['(', ',']).next().unwrap_or_default();
        if !matches!(name, "be_id" | "fe_id" | "be_name" | "fe_name" | "int" | "str" | "bool") {
            let reason = format!("bytes are counted by `{key}`, and here by route and by connection only");
            return Some(Err(reason));
        }
        let table = self.value("table").unwrap_or(scope.section);
        let counter = if self.is_upload { "bytes_in_rate" } else { "bytes_out_rate" };
        let (line, counters) = scope.tables.get(table)?;
        let ms = counters.get(counter).copied().filter(|ms| *ms > 0)?;
        ledger.carried(*line);
        Some(Ok((true, rate(bytes, ms))))
    }
}

fn word_after<'w>(words: &'w [String], name: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1).map(String::as_str)
}

/// The number of `int(4096)`, or the word itself.
fn constant(word: &str) -> &str {
    word.strip_prefix("int(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(word)
}

fn rate(bytes: u64, ms: u64) -> u64 {
    bytes.saturating_mul(1000) / ms
}
