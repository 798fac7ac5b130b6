//! The shell: store, rules, fetches under way and those who wait for them, as a proxy has them, in virtual time.

use super::judge::{How, Judge};
use super::site::{Answer, Content, Page, Rng, Site, Zipf};
use bytes::Bytes;
use evenkeel_cache::decide::{Decision, decide, decide_by, is_error, on_error_by, validators};
use evenkeel_cache::freshen::{Freshened, freshen};
use evenkeel_cache::key::{Key, KeyRules, Place};
use evenkeel_cache::lookup::Lookup;
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::policy::Policy;
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::store::{Fate, Found, Inserted, KeyRef, Object, Options, Sequence, Store, Target};
use evenkeel_cache::stored::Stored;
use evenkeel_cache::syntax::date;
use evenkeel_cache::vary;
use evenkeel_wire::head::{Request, Table};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

/// Longest time from a request to an endpoint to the end of its response.
pub const LATENCY_MAX_MS: u64 = 4000;

/// Time between two sweeps, and the places that one looks at.
const SWEEP_EVERY_MS: u64 = 10_000;
const PLACES: usize = 128;

/// Seconds after which a response goes that nothing serves any more.
const OVER_S: u32 = 600;

const HOST: &[u8] = b"site.example";

/// Target of a purge, and true if it is soft.
#[derive(Clone, Copy, Debug)]
pub enum Purge {
    Url(usize, bool),
    Label(usize, bool),
    Section(usize, bool),
    All(bool),
}

impl Purge {
    pub fn any(rng: &mut Rng, zipf: &Zipf) -> Purge {
        let is_soft = rng.below(3) == 0;
        match rng.below(1000) {
            0 => Purge::All(is_soft),
            1..40 => Purge::Section(rng.below(97) as usize, is_soft),
            40..150 => Purge::Label(rng.below(500) as usize, is_soft),
            _ => Purge::Url(zipf.draw(rng), is_soft),
        }
    }
}

type Entry = Arc<Object<Stored>>;

/// Request that waits for its answer, with the moment at which it came.
#[derive(Clone, Copy)]
struct Asked {
    url: usize,
    language: usize,
    has_user: bool,
    at: u64,
    number: u64,
}

/// A fetch that is under way.
struct Fetch {
    asked: Asked,
    entry: Option<Entry>,
    /// Moment of the soft purge that was meant for the entry.
    stale_from: Option<Moment>,
    began: Sequence,
    sent: u64,
    /// True if the client has its answer already.
    is_behind: bool,
    /// Requests that wait for it; `None` if none may.
    waiting: Option<Vec<Asked>>,
}

pub struct Shell<'s> {
    site: &'s Site,
    store: Store<Stored>,
    rules: KeyRules,
    policy: Policy,
    pub now: u64,
    swept: u64,
    rng: Rng,
    requests: u64,
    /// Fetches by number, and their ends in order.
    fetches: BTreeMap<u64, Fetch>,
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    /// Fetches for which others may wait, by key.
    leads: HashMap<Key, u64>,
}

impl<'s> Shell<'s> {
    pub fn new(site: &'s Site, capacity: u64) -> Shell<'s> {
        let options = Options { capacity, object_max: 64 << 10, purges_max: 64, ..Options::default() };
        Shell {
            site,
            store: Store::new(&options),
            rules: KeyRules::default(),
            policy: Policy::default(),
            // Amid a second, as clocks are.
            now: 1_700_000_000_400,
            swept: 0,
            rng: Rng(7),
            requests: 0,
            fetches: BTreeMap::new(),
            ends: BinaryHeap::new(),
            leads: HashMap::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.store.counts().bytes
    }

    /// Lets time pass, with the ends of fetches and the sweeps that are due.
    pub fn advance(&mut self, to: u64, judge: &mut Judge) {
        while let Some(Reverse((at, number))) = self.ends.peek().copied().filter(|Reverse((at, _))| *at <= to) {
            self.ends.pop();
            self.now = self.now.max(at);
            let fetch = self.fetches.remove(&number).expect("each ends once");
            self.ended(fetch, judge);
        }
        self.now = self.now.max(to);
        if self.now >= self.swept + SWEEP_EVERY_MS {
            self.swept = self.now;
            self.store.sweep(PLACES);
            let now = Moment(self.now);
            self.store.drop_over(PLACES, |stored| stored.is_over(OVER_S, now));
        }
    }

    /// Waits for all fetches, and takes the counts of the store. Nothing of purges is left after a sweep.
    pub fn end(&mut self, judge: &mut Judge) {
        self.advance(self.now + 100 * LATENCY_MAX_MS, judge);
        assert!(self.fetches.is_empty() && self.leads.is_empty());
        while self.store.sweep(1 << 20) {}
        let counts = self.store.counts();
        assert!(counts.objects > 0 && counts.objects >= counts.entries, "{counts:?}");
        let of_judge = &mut judge.counts;
        (of_judge.refused_purged, of_judge.evicted) = (counts.refused_purged, counts.evicted);
        (of_judge.over, of_judge.purged) = (counts.over, counts.purged);
        self.store.purge(Target::All, Fate::Removed, Moment(self.now));
        while self.store.sweep(1 << 20) {}
        let counts = self.store.counts();
        assert_eq!((counts.entries, counts.objects, counts.bytes), (0, 0, 0));
    }

    pub fn purge(&mut self, purge: &Purge, judge: &mut Judge) {
        let fate = |is_soft| if is_soft { Fate::Stale } else { Fate::Removed };
        let now = Moment(self.now);
        let (target, is_soft) = match *purge {
            Purge::Url(url, is_soft) => {
                let url = self.rules.url(true, HOST, &self.site.page(url).path()).expect("a URL");
                self.store.purge_url(&url, fate(is_soft), now);
                return judge.purged(purge, self.now);
            }
            Purge::Label(label, is_soft) => (Target::Tag(format!("l{label}").into_bytes().into()), is_soft),
            Purge::Section(section, is_soft) => {
                let prefix = format!("https://site.example/s{section}/");
                (Target::Prefix(prefix.into_bytes().into()), is_soft)
            }
            Purge::All(is_soft) => (Target::All, is_soft),
        };
        self.store.purge(target, fate(is_soft), now);
        judge.purged(purge, self.now);
    }

    /// A request of a client, which is answered now or later.
    pub fn ask(&mut self, url: usize, language: usize, has_user: bool, judge: &mut Judge) {
        self.requests += 1;
        let asked = Asked { url, language, has_user, at: self.now, number: self.requests };
        self.look(asked, true, judge);
    }

    fn look(&mut self, asked: Asked, may_wait: bool, judge: &mut Judge) {
        let began = self.store.begin();
        let page = *self.site.page(asked.url);
        let (path, mut fields) = (page.path(), fields_of(asked));
        let request = Request { method: "GET", target: &path, host: HOST, fields: fields.fields() };
        let lookup = Lookup::of(&request, false, &self.policy).expect("a plain read");
        let key = self.rules.key(&request, &Place { is_https: true, ..Place::default() }).expect("a key");
        let found = self.store.lookup(KeyRef::from(&key), |stored| {
            vary::serves(stored, &request, &self.policy).then_some(stored.terms.date.0)
        });
        let now = Moment(self.now);
        let mut stale_from = None;
        let (entry, decision) = match found {
            Found::Hit(hit) => {
                stale_from = hit.stale_from;
                let decision = match hit.stale_from {
                    None => decide(hit.object.head(), &lookup, now),
                    Some(at) => decide_by(&hit.object.head().terms.ended_at(at), &lookup, now),
                };
                (Some(hit.object), Some(decision))
            }
            Found::OtherVariants | Found::Nothing => (None, None),
        };
        match (&entry, decision) {
            (Some(entry), Some(Decision::Fresh)) => return self.answer(judge, asked, entry, How::Fresh),
            (Some(entry), Some(Decision::StaleWhileRevalidate)) => {
                self.answer(judge, asked, entry, How::Stale);
                if !self.leads.contains_key(&key) {
                    let fetch = self.fetch(asked, (Some(entry.clone()), stale_from), began, true, true);
                    self.leads.insert(key, fetch);
                }
                return;
            }
            _ => {}
        }
        if let Some(number) = self.leads.get(&key).filter(|_| may_wait) {
            let waiting = self.fetches.get_mut(number).and_then(|fetch| fetch.waiting.as_mut());
            return waiting.expect("a fetch that leads").push(asked);
        }
        let leads = may_wait && !self.leads.contains_key(&key);
        let number = self.fetch(asked, (entry, stale_from), began, false, leads);
        if leads {
            self.leads.insert(key, number);
        }
    }

    /// Sends a request, whose end comes later. Returns its number.
    fn fetch(
        &mut self,
        asked: Asked,
        (entry, stale_from): (Option<Entry>, Option<Moment>),
        began: Sequence,
        is_behind: bool,
        leads: bool,
    ) -> u64 {
        self.requests += 1;
        let number = self.requests;
        let most = if self.rng.below(20) == 0 { LATENCY_MAX_MS - 20 } else { 300 };
        let latency = 20 + self.rng.below(most);
        let asked = Asked { number: if is_behind { number } else { asked.number }, ..asked };
        self.ends.push(Reverse((self.now + latency, number)));
        let waiting = leads.then(Vec::new);
        self.fetches.insert(number, Fetch { asked, entry, stale_from, began, sent: self.now, is_behind, waiting });
        number
    }

    /// The response to a fetch has come. The endpoint has made it at once: what changed on its way is not in it.
    fn ended(&mut self, fetch: Fetch, judge: &mut Judge) {
        let Fetch { asked, entry, stale_from, began, sent, is_behind, waiting } = fetch;
        let page = *self.site.page(asked.url);
        let (path, mut asked_fields) = (page.path(), fields_of(asked));
        let request = Request { method: "GET", target: &path, host: HOST, fields: asked_fields.fields() };
        let key = self.rules.key(&request, &Place { is_https: true, ..Place::default() }).expect("a key");
        let condition = entry.iter().flat_map(|entry| validators(entry.head())).next().map(|(_, value)| value);
        let content = Content {
            url: asked.url,
            language: asked.language,
            version: 0,
            has_user: asked.has_user,
            request: asked.number,
        };
        let mut answer = self.site.answer(content, condition.as_deref(), sent);
        answer.fields.push(("Date", date::write(Date(sent))));
        let now = Moment(self.now);
        let on_error = |entry: &Entry| {
            let terms = entry.head().terms;
            on_error_by(&stale_from.map_or(terms, |at| terms.ended_at(at)), now)
        };
        let refused = match &entry {
            Some(entry) if is_error(answer.status) && on_error(entry) => {
                if !is_behind {
                    self.answer(judge, asked, entry, How::Failed);
                }
                Some(Refusal::CutOff)
            }
            Some(entry) if answer.status == 304 => {
                let mut fields = table(&answer);
                let reply = Reply {
                    status: 304,
                    fields: &fields.fields(),
                    sent: Moment(sent),
                    received: now,
                    arrived: Date(now.0),
                };
                let (renewed, refused) = match freshen(entry.head(), &request, &reply, &self.policy) {
                    Freshened::Kept(stored) => {
                        let renewed = Arc::new(entry.with_head(stored));
                        let refused = self.put(&key, renewed.clone(), began);
                        (renewed, refused)
                    }
                    Freshened::Once(stored, refusal) => {
                        if !refusal.is_of_request() {
                            self.store.drop_object(KeyRef::from(&key), entry);
                        }
                        (Arc::new(entry.with_head(stored)), Some(refusal))
                    }
                    Freshened::Mismatch => panic!("the endpoint names the tag that it was asked about"),
                };
                if !is_behind {
                    self.answer(judge, asked, &renewed, How::Renewed);
                }
                refused
            }
            _ => self.came(&key, &request, &answer, entry.as_ref(), (began, sent)),
        };
        if !is_behind && answer.status == 200 {
            judge.fetched(&page, &Content::read(&answer.body), asked.number);
        }
        let Some(waiting) = waiting else { return };
        self.leads.remove(&key);
        judge.counts.collapsed += waiting.len() as u64;
        for asked in waiting {
            let again = matches!(refused, Some(Refusal::CutOff | Refusal::Purged));
            self.look(asked, again, judge);
        }
    }

    /// Stores a whole response, if that may be.
    fn came(
        &mut self,
        key: &Key,
        request: &Request<'_, '_>,
        answer: &Answer,
        entry: Option<&Entry>,
        (began, sent): (Sequence, u64),
    ) -> Option<Refusal> {
        let mut fields = table(answer);
        let received = Moment(self.now);
        let reply = Reply {
            status: answer.status,
            fields: &fields.fields(),
            sent: Moment(sent),
            received,
            arrived: Date(self.now),
        };
        match storable(request, &Lookup::default(), &reply, &self.policy) {
            Ok(stored) => match self.store.refusal(key.into(), &stored, answer.body.len() as u64, began) {
                Some(refusal) => Some(refusal.into()),
                None => self.put(key, Object::new(stored, answer.body.clone()).into(), began),
            },
            Err(refusal) => {
                if let Some(entry) = entry.filter(|_| !refusal.is_of_request() && !is_error(answer.status)) {
                    self.store.drop_object(key.into(), entry);
                }
                Some(refusal)
            }
        }
    }

    fn put(&self, key: &Key, entry: Entry, began: Sequence) -> Option<Refusal> {
        let varying = entry.clone();
        let is_same = |other: &Stored| other.varying() == varying.head().varying();
        match self.store.insert(key.into(), entry, began, Moment(self.now), is_same) {
            Inserted::Refused(refusal) => Some(refusal.into()),
            Inserted::Added | Inserted::Replaced => None,
        }
    }

    fn answer(&self, judge: &mut Judge, asked: Asked, entry: &Entry, how: How) {
        let page: &Page = self.site.page(asked.url);
        let body: &Bytes = entry.body();
        let content = Content::read(body);
        assert!(!page.varies || content.language == asked.language, "{page:?} {content:?}");
        judge.stored(page, &content, entry.head(), how, asked.at, self.now);
    }
}

fn fields_of(asked: Asked) -> Table {
    let mut fields = Table::default();
    fields.push(b"Accept-Language", [&b"de"[..], b"en", b"fr"][asked.language]);
    if asked.has_user {
        fields.push(b"Authorization", b"Basic YTpi");
    }
    fields
}

fn table(answer: &Answer) -> Table {
    answer.fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}
