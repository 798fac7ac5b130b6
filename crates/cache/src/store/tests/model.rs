//! A map that behaves as the store, for comparison.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    Look(u8, u8),
    Put { key: u8, variant: u8, tag: u8, body: u16, fetched_before: u8 },
    Encode(u8, u8),
    PurgeKey(u8, bool),
    PurgeUrl(u8, bool),
    PurgeTag(u8, bool),
    PurgePrefix(u8, bool),
    PurgeAll(bool),
    Sweep(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0..24_u8, 0..3_u8, 0..4_u8, 0..3000_u16, 0..4_u8);
    prop_oneof![
        8 => (0..24_u8, 0..3_u8).prop_map(|(key, variant)| Step::Look(key, variant)),
        8 => put.prop_map(|(key, variant, tag, body, fetched_before)| Step::Put { key, variant, tag, body, fetched_before }),
        1 => (0..24_u8, 0..3_u8).prop_map(|(key, variant)| Step::Encode(key, variant)),
        1 => (0..24_u8, any::<bool>()).prop_map(|(key, is_soft)| Step::PurgeKey(key, is_soft)),
        1 => (0..24_u8, any::<bool>()).prop_map(|(key, is_soft)| Step::PurgeUrl(key, is_soft)),
        1 => (0..4_u8, any::<bool>()).prop_map(|(tag, is_soft)| Step::PurgeTag(tag, is_soft)),
        1 => (0..3_u8, any::<bool>()).prop_map(|(prefix, is_soft)| Step::PurgePrefix(prefix, is_soft)),
        1 => any::<bool>().prop_map(Step::PurgeAll),
        2 => any::<u8>().prop_map(Step::Sweep),
    ]
}

/// 24 keys of 8 URLs in 3 folders.
fn text(key: u8) -> String {
    format!("/{}/{}|{}", key % 8 % 3, key % 8, key / 8)
}

/// Object of the model: tag, content, and if it was marked.
type Known = (u8, u64, bool);

#[derive(Default)]
struct Model {
    known: HashMap<(u8, u8), Known>,
    /// Purges in their order: which objects of any key and tag they are for.
    purges: Vec<Step>,
}

impl Model {
    fn is_for(purge: &Step, key: u8, tag: u8) -> bool {
        match purge {
            Step::PurgeKey(of, _) => *of == key,
            Step::PurgeUrl(of, _) => of % 8 == key % 8,
            Step::PurgeTag(of, _) => *of == tag,
            Step::PurgePrefix(of, _) => *of == key % 8 % 3,
            _ => true,
        }
    }

    /// Returns the objects that it was for.
    fn purge(&mut self, purge: Step, is_soft: bool) -> u64 {
        let before: Vec<_> =
            self.known.iter().filter(|(k, known)| Model::is_for(&purge, k.0, known.0)).map(|(k, _)| *k).collect();
        for at in &before {
            if is_soft {
                self.known.entry(*at).and_modify(|known| known.2 = true);
            } else {
                self.known.remove(at);
            }
        }
        self.purges.push(purge);
        before.len() as u64
    }
}

fn run(steps: Vec<Step>, capacity: u64) -> Result<(), TestCaseError> {
    let evicts = capacity < 1 << 20;
    let store = Store::new(&Options { capacity, shards: 2, purges_max: 3, ..Options::default() });
    let mut model = Model::default();
    // A fetch may have begun some purges ago.
    let mut begun = vec![store.begin()];
    for (content, step) in (0..).zip(steps) {
        let fate = |is_soft| if is_soft { Fate::Stale } else { Fate::Removed };
        match step.clone() {
            Step::Look(key, variant) => {
                let found = super::content(&store, &text(key), variant);
                let known = model.known.get(&(key, variant)).map(|known| (known.1, known.2));
                prop_assert!(found == known || (evicts && found.is_none()), "{:?} instead of {:?}", found, known);
            }
            Step::Put { key, variant, tag, body, fetched_before } => {
                let ago = usize::from(fetched_before).min(begun.len() - 1);
                let missed = &model.purges[model.purges.len() - ago..];
                let object = page(variant, &[tag], content, body.into());
                let began = begun[begun.len() - 1 - ago];
                let result = store
                    .insert(super::key(&text(key)), object, began, Moment(content), |page| page.variant == variant);
                let is_purged = missed.iter().any(|purge| Model::is_for(purge, key, tag));
                match result {
                    Inserted::Refused(Refusal::Purged) => prop_assert!(ago > 0),
                    Inserted::Refused(Refusal::Unused) => {
                        prop_assert!(evicts);
                        // All variants went with it.
                        model.known.retain(|known, _| known.0 != key);
                    }
                    Inserted::Refused(Refusal::TooLarge) => prop_assert!(evicts),
                    Inserted::Refused(Refusal::Known) => prop_assert!(false, "refused as known, though it is new"),
                    Inserted::Added | Inserted::Replaced => {
                        prop_assert!(!is_purged, "stored though it was purged");
                        let before = model.known.insert((key, variant), (tag, content, false));
                        prop_assert!(evicts || before.is_some() == (result == Inserted::Replaced));
                    }
                }
            }
            Step::Encode(key, variant) => {
                if let Found::Hit(hit) =
                    store.lookup(super::key(&text(key)), |page| (page.variant == variant).then_some(0))
                {
                    let is_new = hit.object.encoded(Coding::Gzip).is_none();
                    let is_added = store.add_encoded(
                        super::key(&text(key)),
                        hit.object.forms(),
                        Coding::Gzip,
                        Bytes::from(vec![0; 300]),
                        Moment(0),
                    );
                    prop_assert!(is_added == is_new || evicts);
                }
            }
            Step::PurgeKey(key, is_soft) => {
                let matched = store.purge_key(super::key(&text(key)), fate(is_soft), Moment(content));
                let expected = model.purge(step, is_soft);
                prop_assert!(evicts || matched.objects == expected);
                begun.push(store.begin());
            }
            Step::PurgeUrl(key, is_soft) => {
                let url = text(key);
                let matched = store.purge_url(super::key(&url).url(), fate(is_soft), Moment(content));
                let expected = model.purge(step, is_soft);
                prop_assert!(evicts || matched.objects == expected);
                begun.push(store.begin());
            }
            Step::PurgeTag(tag, is_soft) => {
                store.purge(Target::Tag([tag].into()), fate(is_soft), Moment(content));
                model.purge(step, is_soft);
                begun.push(store.begin());
            }
            Step::PurgePrefix(prefix, is_soft) => {
                store.purge(Target::Prefix(format!("/{prefix}/").into_bytes().into()), fate(is_soft), Moment(content));
                model.purge(step, is_soft);
                begun.push(store.begin());
            }
            Step::PurgeAll(is_soft) => {
                let sequence = store.purge(Target::All, fate(is_soft), Moment(content));
                let expected = model.purge(step, is_soft);
                while store.sweep(7) {}
                let purged = store.purged(sequence).expect("a recent one");
                prop_assert!(purged.is_complete && (evicts || purged.objects == expected), "{:?} {}", purged, expected);
                begun.push(store.begin());
            }
            Step::Sweep(places) => {
                store.sweep(places.into());
            }
        }
        store.assert_sound();
        prop_assert!(store.counts().bytes <= capacity);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_large_store_is_a_map(steps in proptest::collection::vec(step(), 0..200)) {
        run(steps, 64 << 20)?;
    }

    #[test]
    fn a_small_store_forgets_and_never_invents(steps in proptest::collection::vec(step(), 0..300)) {
        run(steps, 64 << 10)?;
    }
}
