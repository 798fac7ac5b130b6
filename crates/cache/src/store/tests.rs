//! Tests of a whole store: each operation, a comparison with a model, and many threads.

mod model;
mod scans;
mod threads;

use super::*;

/// Head of test objects: name of the variant, tags, and a number of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub variant: u8,
    pub tags: Vec<u8>,
    pub content: u64,
}

impl Head for Page {
    fn weight(&self) -> usize {
        size_of::<Page>() + 16 + self.tags.len()
    }

    fn has_tag(&self, tag: &[u8]) -> bool {
        tag.len() == 1 && self.tags.contains(&tag[0])
    }
}

pub(super) fn page(variant: u8, tags: &[u8], content: u64, body: usize) -> Arc<Object<Page>> {
    Arc::new(Object::new(Page { variant, tags: tags.to_vec(), content }, Bytes::from(vec![0; body])))
}

/// Key of a URL, distinguished from others of that URL by its last bytes.
pub(super) fn key(text: &str) -> KeyRef<'_> {
    KeyRef::new(text.as_bytes(), text.find('|').unwrap_or(text.len()))
}

pub(super) fn content(store: &Store<Page>, text: &str, variant: u8) -> Option<(u64, bool)> {
    match store.lookup(key(text), |page| (page.variant == variant).then_some(0)) {
        Found::Hit(hit) => Some((hit.object.head().content, hit.stale_from.is_some())),
        Found::OtherVariants | Found::Nothing => None,
    }
}

/// Stores without a fetch before.
pub(super) fn put(store: &Store<Page>, text: &str, object: Arc<Object<Page>>) -> Inserted {
    let variant = object.head().variant;
    store.insert(key(text), object, store.begin(), Moment(0), |page| page.variant == variant)
}

fn store() -> Store<Page> {
    Store::new(&Options { capacity: 1 << 20, shards: 4, variants_max: 3, ..Options::default() })
}

#[test]
fn a_variant_replaces_the_same_and_the_least_recently_used_goes() {
    let store = store();
    assert_eq!(put(&store, "a", page(0, b"", 1, 10)), Inserted::Added);
    assert_eq!(put(&store, "a", page(0, b"", 2, 10)), Inserted::Replaced);
    put(&store, "a", page(1, b"", 3, 10));
    put(&store, "a", page(2, b"", 4, 10));
    assert_eq!(content(&store, "a", 0), Some((2, false)));
    assert_eq!(put(&store, "a", page(3, b"", 5, 10)), Inserted::Added);
    let known = [0, 1, 2, 3].map(|variant| content(&store, "a", variant).map(|known| known.0));
    assert_eq!(known, [Some(2), None, Some(4), Some(5)]);
    assert!(matches!(store.lookup(key("a"), |_| None), Found::OtherVariants));
    assert!(matches!(store.lookup(key("b"), |_| Some(1)), Found::Nothing));
    let counts = store.counts();
    assert_eq!((counts.entries, counts.inserts, counts.replaced, counts.variants_dropped), (1, 5, 1, 1));
    assert_eq!((counts.hits, counts.misses), (4, 3));
    for variant in 10..200 {
        assert_eq!(put(&store, "a", page(variant, b"", 0, 10)), Inserted::Added);
    }
    assert_eq!(store.counts().variants_dropped, 191);
    store.assert_sound();
}

#[test]
fn a_closed_store_holds_nothing() {
    let store = store();
    put(&store, "a", page(0, b"", 1, 10));
    store.close(Moment(1));
    assert_eq!(content(&store, "a", 0), None);
    assert_eq!(put(&store, "b", page(0, b"", 1, 10)), Inserted::Refused(Refusal::TooLarge));
    assert_eq!(store.counts().bytes, 0);
}

#[test]
fn the_highest_rank_is_chosen() {
    let store = store();
    for (variant, number) in [(0, 7), (1, 9), (2, 8)] {
        put(&store, "a", page(variant, b"", number, 1));
    }
    let Found::Hit(hit) = store.lookup(key("a"), |page| Some(page.content)) else { panic!("stored") };
    assert_eq!((hit.object.head().content, hit.hits), (9, 1));
}

#[test]
fn purges_of_a_url_are_for_all_its_keys_and_for_fetches_under_way() {
    let store = store();
    for text in ["/a|1", "/a|2", "/a", "/ab"] {
        put(&store, text, page(0, b"", 1, 10));
    }
    let began = store.begin();
    assert_eq!(store.purge_key(key("/a|2"), Fate::Removed, Moment(1)).objects, 1);
    assert_eq!(["/a|1", "/a|2", "/a", "/ab"].map(|text| content(&store, text, 0).is_some()), [true, false, true, true]);
    assert_eq!(store.purge_url(b"/a", Fate::Removed, Moment(1)).objects, 2);
    assert_eq!(
        ["/a|1", "/a|2", "/a", "/ab"].map(|text| content(&store, text, 0).is_some()),
        [false, false, false, true]
    );
    let late = store.insert(key("/a|3"), page(0, b"", 2, 10), began, Moment(2), |_| true);
    assert_eq!(late, Inserted::Refused(Refusal::Purged));
    assert_eq!(put(&store, "/a|3", page(0, b"", 2, 10)), Inserted::Added);
    assert_eq!(store.purge_url(b"/a", Fate::Stale, Moment(5)).objects, 1);
    assert_eq!(content(&store, "/a|3", 0), Some((2, true)));
    put(&store, "/a|3", page(0, b"", 3, 10));
    assert_eq!(content(&store, "/a|3", 0), Some((3, false)));
    assert_eq!(store.purge_url(b"/none", Fate::Removed, Moment(5)), Matched::default());
    store.assert_sound();
}

#[test]
fn more_keys_of_a_url_than_a_step_are_purged() {
    let store = Store::new(&Options { capacity: 1 << 24, shards: 1, ..Options::default() });
    (0..STEP * 3).for_each(|i| {
        put(&store, &format!("/a|{i}"), page(0, b"", 1, 1));
    });
    put(&store, "/b", page(0, b"", 1, 1));
    assert_eq!(store.purge_url(b"/a", Fate::Stale, Moment(1)).objects, STEP as u64 * 3);
    assert_eq!(store.purge_url(b"/a", Fate::Removed, Moment(1)).objects, STEP as u64 * 3);
    assert_eq!((store.counts().entries, store.counts().purged), (1, STEP as u64 * 3));
    store.assert_sound();
}

#[test]
fn purges_by_the_log_are_complete_before_any_sweep() {
    let store = store();
    put(&store, "/x/1", page(0, b"t", 1, 10));
    put(&store, "/x/2", page(0, b"u", 1, 10));
    put(&store, "/x/2", page(1, b"t", 2, 10));
    put(&store, "/y/1", page(0, b"", 1, 10));
    let began = store.begin();
    let by_tag = store.purge(Target::Tag(b"t"[..].into()), Fate::Removed, Moment(1));
    assert_eq!(content(&store, "/x/1", 0), None);
    assert_eq!((content(&store, "/x/2", 0), content(&store, "/x/2", 1)), (Some((1, false)), None));
    assert_eq!(store.purged(by_tag).map(|purged| (purged.objects, purged.is_complete)), Some((2, false)));
    let by_prefix = store.purge(Target::Prefix(b"/y/"[..].into()), Fate::Stale, Moment(2));
    assert_eq!(content(&store, "/y/1", 0), Some((1, true)));
    while store.sweep(1) {}
    assert_eq!(store.purged(by_prefix).map(|purged| (purged.objects, purged.is_complete)), Some((1, true)));
    // The purge of a tag is forgotten, so an object that could have had the tag is refused.
    let late = store.insert(key("/z"), page(0, b"", 2, 10), began, Moment(2), |_| true);
    assert_eq!(late, Inserted::Refused(Refusal::Purged));
    let all = store.purge(Target::All, Fate::Removed, Moment(3));
    assert_eq!(["/x/1", "/x/2", "/y/1"].map(|text| content(&store, text, 0)), [None; 3]);
    while store.sweep(1000) {}
    assert_eq!(store.purged(all).map(|purged| purged.objects), Some(2));
    assert_eq!((store.counts().entries, store.counts().bytes), (0, 0));
    store.assert_sound();
}

#[test]
fn a_full_log_sweeps_first() {
    let store = Store::new(&Options { purges_max: 2, capacity: 1 << 20, ..Options::default() });
    put(&store, "/a", page(0, b"abcde", 1, 10));
    let purges = b"vwxyz".map(|tag| store.purge(Target::Tag([tag].into()), Fate::Removed, Moment(1)));
    let complete = purges.map(|sequence| store.purged(sequence).is_some_and(|purged| purged.is_complete));
    assert_eq!(complete, [true, true, true, true, false]);
    assert_eq!(content(&store, "/a", 0), Some((1, false)));
}

#[test]
fn encoded_bodies_count_and_go_with_their_object() {
    let store = store();
    let object = page(0, b"", 1, 1000);
    put(&store, "a", object.clone());
    let before = store.counts().bytes;
    let forms = object.forms();
    let body = Bytes::from(vec![0; 500]);
    assert!(store.add_encoded(key("a"), forms, Coding::Zstd, body.clone(), Moment(0)));
    assert!(!store.add_encoded(key("a"), forms, Coding::Zstd, body.clone(), Moment(0)));
    assert!(!store.add_encoded(key("b"), forms, Coding::Gzip, body.clone(), Moment(0)));
    assert!(!store.add_encoded(key("a"), forms, Coding::Gzip, Bytes::from(vec![0; 1 << 17]), Moment(0)));
    assert!(store.counts().bytes > before + 500 && object.encoded(Coding::Gzip).is_none());
    store.assert_sound();
    put(&store, "a", object.with_head(object.head().clone()).into());
    assert!(store.add_encoded(key("a"), forms, Coding::Gzip, body.clone(), Moment(0)), "also under a new head");
    store.assert_sound();
    store.purge_key(key("a"), Fate::Removed, Moment(0));
    assert!(!store.add_encoded(key("a"), forms, Coding::Brotli, body, Moment(0)));
    assert_eq!(store.counts().bytes, 0);
}

#[test]
fn what_is_too_large_or_unused_is_refused() {
    let store = Store::new(&Options { capacity: 1 << 20, shards: 1, object_max: 1 << 30, ..Options::default() });
    assert_eq!(put(&store, "large", page(0, b"", 1, 1 << 17)), Inserted::Refused(Refusal::TooLarge));
    for i in 0..11 {
        let text = i.to_string();
        (0..3).for_each(|_| assert_eq!(content(&store, &text, 0), None));
        put(&store, &text, page(0, b"", 1, 90_000));
    }
    assert_eq!(put(&store, "unused", page(0, b"", 1, 90_000)), Inserted::Refused(Refusal::Unused));
    (0..8).for_each(|_| assert_eq!(content(&store, "used", 0), None));
    assert_eq!(put(&store, "used", page(0, b"", 1, 90_000)), Inserted::Added);
    let counts = store.counts();
    assert_eq!((counts.refused_large, counts.refused_unused, counts.evicted_ages[0]), (1, 1, counts.evicted));
    assert!(counts.bytes <= 1 << 20);
    store.assert_sound();
}

#[test]
fn walks_and_tops_see_everything_once() {
    let store = store();
    (0..500_usize).for_each(|i| {
        put(&store, &format!("/{i}"), page((i % 2) as u8, b"", i as u64, i));
    });
    put(&store, "/7", page(9, b"", 1000, 7));
    (0..5).for_each(|_| assert!(content(&store, "/42", 0).is_some()));
    let (mut seen, mut at) = (Vec::new(), Some(Cursor::default()));
    while let Some(from) = at {
        let (items, next) = store.walk(from, 100);
        assert!(items.len() <= 101);
        seen.extend(items.iter().map(|item| item.object.head().content));
        at = next;
    }
    seen.sort_unstable();
    assert!(seen.iter().copied().eq((0..500).chain([1000])));
    let largest: Vec<_> =
        store.top(3, By::Bytes).into_iter().map(|top| String::from_utf8(top.key.into()).unwrap()).collect();
    assert_eq!(largest, ["/499", "/498", "/497"]);
    let used = store.top(1, By::Hits);
    assert_eq!((&used[0].key[..], used[0].hits, used[0].variants), (&b"/42"[..], 5, 1));
    assert!(store.top(0, By::Hits).is_empty() && store.top(usize::MAX, By::Hits).len() == 500);
    store.purge(Target::All, Fate::Removed, Moment(0));
    assert!(store.walk(Cursor::default(), 10_000).0.is_empty() && store.top(1, By::Bytes).is_empty());
}

#[test]
fn what_is_over_is_dropped_in_steps_and_the_rest_stays() {
    let store = store();
    for url in 0..600 {
        put(&store, &format!("{url}"), page(0, b"", url, 10));
        put(&store, &format!("{url}"), page(1, b"", 1000 + url % 2, 10));
    }
    let is_over = |page: &Page| page.variant == 0 || page.content == 1001;
    store.drop_over(1, is_over);
    let first = store.counts().over;
    assert!(first <= 2, "one place has two at most: {first}");
    // Each step continues at the end of the previous step.
    for _ in 0..40 {
        store.drop_over(100, is_over);
    }
    store.assert_sound();
    let counts = store.counts();
    assert_eq!((counts.entries, counts.objects, counts.over), (300, 300, 900));
    assert_eq!(content(&store, "2", 1), Some((1000, false)));
    assert_eq!((content(&store, "2", 0), content(&store, "1", 1)), (None, None));
}

#[test]
fn a_refusal_is_known_before_the_body_has_come() {
    let store = Store::new(&Options { object_max: 1000, ..Options::default() });
    let (head, began) = (Page { variant: 0, tags: b"t".to_vec(), content: 0 }, store.begin());
    let refusal = |length| store.refusal(key("a"), &head, length, began);
    assert_eq!(
        (refusal(100), refusal(1000), refusal(u64::MAX)),
        (None, Some(Refusal::TooLarge), Some(Refusal::TooLarge))
    );
    // An insertion gives the same refusal.
    let length = (0..1000).rfind(|length| refusal(*length).is_none()).expect("small ones fit");
    let insert = |length| put(&store, "b", page(0, b"t", 0, length as usize));
    assert_eq!(insert(length), Inserted::Added);
    assert_eq!(insert(length + 1), Inserted::Refused(Refusal::TooLarge));
    store.purge(Target::Tag(b"t"[..].into()), Fate::Removed, Moment(0));
    assert_eq!(refusal(100), Some(Refusal::Purged));
    store.purge_url(b"a", Fate::Removed, Moment(0));
    assert_eq!(store.refusal(key("a"), &head, 100, store.begin()), None);
    assert_eq!(store.counts().refused_purged, 1);
}

/// Collects the names of evicted objects.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<String>>>);

impl Evictions<Page> for Names {
    fn point(&self) -> u64 {
        7
    }

    fn evicted(&self, item: Item<Page>, point: u64) {
        assert_eq!(point, 7);
        self.0.lock().unwrap().push(String::from_utf8(item.key.to_vec()).unwrap());
    }
}

#[test]
fn what_is_evicted_is_passed_on_unless_it_is_purged() {
    let names = Names::default();
    let options = Options { capacity: 1 << 20, shards: 1, ..Options::default() };
    let store = Store::with_evictions(&options, Some(Box::new(names.clone())));
    for i in 0..100 {
        let name = format!("/{i}");
        content(&store, &name, 0);
        put(&store, &name, page(0, &[i as u8 % 4], i, 30_000));
    }
    let passed = std::mem::take(&mut *names.0.lock().unwrap());
    assert_eq!(passed.len() as u64, store.counts().evicted);
    // Nothing leaves behind a purge that has not met it.
    store.purge(Target::All, Fate::Removed, Moment(1));
    for i in 200..300 {
        // Often enough to go before those that are there.
        (0..4).for_each(|_| _ = content(&store, &format!("/{i}"), 0));
        put(&store, &format!("/{i}"), page(0, b"", i, 30_000));
    }
    let passed = names.0.lock().unwrap();
    assert!(passed.iter().all(|name| name.starts_with("/2")), "{passed:?}");
}
