//! Names of the servers other than a given server.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Names of all servers, each with the numbers of its servers.
pub(super) type Names = BTreeMap<String, BTreeSet<usize>>;

/// Names of the other servers. All servers share the table.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherNames {
    all: Rc<Names>,
    /// Number of the server that the others are other than.
    but: usize,
}

impl OtherNames {
    pub fn new(all: &Rc<Names>, but: usize) -> OtherNames {
        OtherNames { all: Rc::clone(all), but }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.all.get(name).is_some_and(|servers| self.has_other(servers))
    }

    /// True for a name of the server itself.
    pub fn is_own(&self, name: &str) -> bool {
        self.all.get(name).is_some_and(|servers| servers.contains(&self.but))
    }

    pub fn is_empty(&self) -> bool {
        !self.all.values().any(|servers| self.has_other(servers))
    }

    fn has_other(&self, servers: &BTreeSet<usize>) -> bool {
        servers.iter().any(|number| *number != self.but)
    }
}

#[test]
fn a_name_of_two_servers_is_one_of_another_for_both() {
    let all = Rc::new(Names::from([("a".into(), [0].into()), ("b".into(), [0, 1].into())]));
    let [first, second] = [0, 1].map(|but| OtherNames::new(&all, but));
    assert!(!first.contains("a") && first.contains("b") && second.contains("a") && second.contains("b"));
    assert!(first.is_own("a") && first.is_own("b") && !second.is_own("a"));
    assert!(!first.is_empty() && OtherNames::default().is_empty());
}
