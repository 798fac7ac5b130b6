//! A cache of the rules and a map, in virtual time: the state machine that a shell has around the rules, at its simplest.

use crate::suite::{Ask, Cache, FieldList, Got, Origin, Reply as Reaction};
use evenkeel_cache::answer::Answer;
use evenkeel_cache::decide::{Decision, decide, is_error, is_only_if_cached, on_error, validators};
use evenkeel_cache::freshen::{Freshened, OfHead, by_head, freshen};
use evenkeel_cache::invalidate::invalidated;
use evenkeel_cache::key::{Key, KeyRules, Place};
use evenkeel_cache::lookup::{Lookup, REPLACED};
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::policy::Policy;
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::stored::Stored;
use evenkeel_cache::vary;
use evenkeel_wire::head::{Request, Table};
use std::collections::HashMap;
use std::rc::Rc;

/// A cache with one policy. The host is always the same.
pub struct Model {
    policy: Policy,
    rules: KeyRules,
    now: Moment,
    entries: HashMap<Key, Vec<Entry>>,
}

type Entry = (Rc<Stored>, Rc<[u8]>);

/// A response of the endpoint, as far as it came.
struct Came {
    status: u16,
    fields: Table,
    body: Vec<u8>,
    interim: Vec<(u16, FieldList)>,
    sent: Moment,
}

const HOST: &[u8] = b"cache.example";

impl Model {
    pub fn new(policy: Policy) -> Model {
        // A date with milliseconds, as those of real clocks.
        let now = Moment(1_700_000_000_400);
        Model { policy, rules: KeyRules::default(), now, entries: HashMap::new() }
    }

    /// Sends a request to the endpoint. `None` if it fails.
    fn forward(&mut self, ask: &Ask, origin: &Origin) -> Option<Came> {
        let sent = self.now;
        match origin.answer(ask, self.now.0) {
            Reaction::Closes => None,
            Reaction::Answer { after, interim, status, fields, body } => {
                self.now.0 += after * 1000;
                Some(Came { status, fields: table(&fields), body: body.into_bytes(), interim, sent })
            }
        }
    }

    /// Stores a response if the rules allow it, instead of the one that it supersedes.
    fn store(&mut self, key: &Key, request: &Request<'_, '_>, lookup: &Lookup, came: &mut Came) -> Result<(), Refusal> {
        let (sent, received) = (came.sent, self.now);
        let reply =
            Reply { status: came.status, fields: &came.fields.fields(), sent, received, arrived: Date(received.0) };
        let stored = storable(request, lookup, &reply, &self.policy)?;
        self.put(key, stored, came.body.clone().into());
        Ok(())
    }

    fn put(&mut self, key: &Key, stored: Stored, body: Rc<[u8]>) {
        let entries = self.entries.entry(key.clone()).or_default();
        entries.retain(|(known, _)| known.varying() != stored.varying());
        entries.push((Rc::new(stored), body));
    }

    fn remove(&mut self, key: &Key, stored: &Stored) {
        if let Some(entries) = self.entries.get_mut(key) {
            entries.retain(|(known, _)| known.varying() != stored.varying());
        }
    }

    fn find(&self, key: &Key, request: &Request<'_, '_>) -> Option<Entry> {
        let entries = self.entries.get(key)?.iter();
        let serving = entries.filter(|(stored, _)| vary::serves(stored, request, &self.policy));
        serving.max_by_key(|(stored, _)| stored.terms.date).cloned()
    }

    fn answer(&self, request: &Request<'_, '_>, (stored, body): &Entry) -> Got {
        let answer = Answer::new(stored, request, body.len() as u64);
        let mut fields = FieldList::new();
        answer.fields(stored, self.now, |name, value| fields.push((text(name), text(value))));
        let body = answer.body.map_or(&[][..], |bytes| &body[bytes.start as usize..bytes.end as usize]);
        Got { status: answer.status, fields, body: body.to_vec(), interim: Vec::new() }
    }

    /// Asks the endpoint about a stored response, and answers.
    fn validate(
        &mut self,
        key: &Key,
        ask: &Ask,
        request: &Request<'_, '_>,
        lookup: &Lookup,
        old: Entry,
        origin: &Origin,
    ) -> Got {
        let mut conditional = ask.clone();
        let own: FieldList = validators(&old.0).map(|(name, value)| (name.into(), text(&value))).collect();
        if !own.is_empty() {
            conditional.fields.retain(|(name, _)| !REPLACED.iter().any(|known| name.eq_ignore_ascii_case(known)));
            conditional.fields.extend(own.clone());
        }
        let came = self.forward(&conditional, origin);
        let Some(mut came) = came.filter(|came| !is_error(came.status) || !on_error(&old.0, self.now)) else {
            return if on_error(&old.0, self.now) { self.answer(request, &old) } else { failed(502) };
        };
        if came.status != 304 || own.is_empty() {
            if lookup.is_head {
                self.head(key, request, &mut came, &old);
            } else if let Err(refusal) = self.store(key, request, lookup, &mut came)
                && !refusal.is_of_request()
                && !is_error(came.status)
            {
                self.remove(key, &old.0);
            }
            return passed(came);
        }
        let (sent, received) = (came.sent, self.now);
        let reply = Reply { status: 304, fields: &came.fields.fields(), sent, received, arrived: Date(received.0) };
        match freshen(&old.0, request, &reply, &self.policy) {
            Freshened::Kept(new) => {
                self.put(key, new, old.1.clone());
                let renewed = self.find(key, request).unwrap_or(old);
                self.answer(request, &renewed)
            }
            Freshened::Once(new, refusal) => {
                if !refusal.is_of_request() {
                    self.remove(key, &old.0);
                }
                self.answer(request, &(Rc::new(new), old.1))
            }
            Freshened::Mismatch => {
                self.remove(key, &old.0);
                self.miss(key, ask, request, lookup, origin)
            }
        }
    }

    /// Applies a response to HEAD to what is stored.
    fn head(&mut self, key: &Key, request: &Request<'_, '_>, came: &mut Came, old: &Entry) {
        let (sent, received) = (came.sent, self.now);
        let reply =
            Reply { status: came.status, fields: &came.fields.fields(), sent, received, arrived: Date(received.0) };
        match by_head(&old.0, old.1.len() as u64, request, &reply, &self.policy) {
            OfHead::Kept(new) => self.put(key, new, old.1.clone()),
            OfHead::Changed => self.remove(key, &old.0),
            OfHead::Untouched => {}
        }
    }

    fn miss(&mut self, key: &Key, ask: &Ask, request: &Request<'_, '_>, lookup: &Lookup, origin: &Origin) -> Got {
        let Some(mut came) = self.forward(ask, origin) else { return failed(502) };
        // Refused or not, the client gets it.
        let _ = self.store(key, request, lookup, &mut came);
        passed(came)
    }

    /// Passes a request by, and drops what it has changed.
    fn bypass(&mut self, ask: &Ask, request: &Request<'_, '_>, origin: &Origin) -> Got {
        let Some(mut came) = self.forward(ask, origin) else { return failed(502) };
        for target in invalidated(request, false, came.status, &came.fields.fields()) {
            if let Ok(url) = self.rules.url(false, HOST, &target) {
                self.entries.retain(|key, _| key.url() != url);
            }
        }
        passed(came)
    }
}

impl Cache for Model {
    fn fetch(&mut self, ask: &Ask, origin: &Origin) -> Got {
        let mut fields = table(&ask.fields);
        let request = Request { method: &ask.method, target: &ask.target, host: HOST, fields: fields.fields() };
        let looked_up = Lookup::of(&request, ask.body.is_some(), &self.policy);
        let key = self.rules.key(&request, &Place::default());
        let (Ok(lookup), Ok(key)) = (looked_up, key) else { return self.bypass(ask, &request, origin) };
        let Some(found) = self.find(&key, &request) else {
            return if is_only_if_cached(&lookup) {
                failed(504)
            } else {
                self.miss(&key, ask, &request, &lookup, origin)
            };
        };
        match decide(&found.0, &lookup, self.now) {
            Decision::Fresh | Decision::StaleAccepted => self.answer(&request, &found),
            Decision::StaleWhileRevalidate => {
                let got = self.answer(&request, &found);
                self.validate(&key, ask, &request, &lookup, found, origin);
                got
            }
            Decision::Validate(_) => self.validate(&key, ask, &request, &lookup, found, origin),
            Decision::OnlyIfCached => failed(504),
        }
    }

    fn wait(&mut self, seconds: u64) {
        self.now.0 += seconds * 1000;
    }
}

fn table(fields: &FieldList) -> Table {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.trim().as_bytes())).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn failed(status: u16) -> Got {
    Got { status, ..Got::default() }
}

fn passed(came: Came) -> Got {
    let fields = came.fields.iter().map(|(name, value)| (text(name), text(value))).collect();
    Got { status: came.status, fields, body: came.body, interim: came.interim }
}
