//! Conditions as formulas over tests of a request, and their alternatives.

use super::criteria::{Atom, Rate};
use crate::model::{Apart, Cond, Key, Maps, Match, Test};
use std::sync::Arc;

/// Most alternatives that a condition is multiplied out to.
const ALTERNATIVES: usize = 64;

/// Beginning of the reason why a condition on the client's address cannot be written.
pub(super) const CLIENT: &str = "of the client's address: ";

/// Formula over tests of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Const(bool),
    /// Shared, as a list of addresses may be long.
    Is(Arc<Atom>),
    Not(Box<Expr>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
}

/// Conditions that hold together: an alternative of a condition.
#[derive(Clone, Debug, Default)]
pub(super) struct Conj {
    pub matching: Match,
    /// Files of client addresses, negated if true.
    pub client_files: Vec<(String, bool)>,
    pub rates: Vec<Rate>,
    /// Userlists, negated if true.
    pub auth: Vec<(String, bool)>,
}

impl Conj {
    /// True if it has nothing that a route cannot match by.
    pub fn is_plain(&self) -> bool {
        self.client_files.is_empty() && self.rates.is_empty() && self.auth.is_empty()
    }
}

impl From<Atom> for Expr {
    fn from(atom: Atom) -> Expr {
        Expr::Is(Arc::new(atom))
    }
}

impl From<Cond> for Expr {
    fn from(cond: Cond) -> Expr {
        let negated = cond.negated;
        let atom = Expr::from(Atom::Is(Cond { negated: false, ..cond }));
        if negated { atom.not() } else { atom }
    }
}

/// Adds the values of a list to another list for the same part of a request. Returns the test if it is none.
fn join(one: &mut Atom, other: Atom) -> Option<Atom> {
    match (one, other) {
        (Atom::Host(host), Atom::Host(other)) => {
            host.extend(other);
            None
        }
        (
            Atom::Is(Cond { key, test: Test::OneOf(values), negated: false }),
            Atom::Is(Cond { key: same, test: Test::OneOf(more), negated: false }),
        ) if *key == same && matches!(key, Key::Client | Key::Host | Key::Method) => {
            values.extend(more);
            None
        }
        (_, other) => Some(other),
    }
}

/// Literals that hold together.
type Product = Vec<(Arc<Atom>, bool)>;

impl Expr {
    pub fn unknown(reason: impl Into<String>) -> Expr {
        Atom::Unknown(reason.into()).into()
    }

    pub fn not(self) -> Expr {
        match self {
            Expr::Const(holds) => Expr::Const(!holds),
            Expr::Not(inner) => *inner,
            other => Expr::Not(Box::new(other)),
        }
    }

    pub fn and(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Const(false), _) | (_, Expr::Const(false)) => Expr::Const(false),
            (Expr::Const(true), other) | (other, Expr::Const(true)) => other,
            (one, other) if one == other => one,
            (one, other) => Expr::All(vec![one, other]),
        }
    }

    pub fn or(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Const(true), _) | (_, Expr::Const(true)) => Expr::Const(true),
            (Expr::Const(false), other) | (other, Expr::Const(false)) => other,
            (one, other) if one == other => one,
            // As of the lines of an ACL, of which there may be thousands.
            (Expr::Is(mut one), Expr::Is(other)) => match join(Arc::make_mut(&mut one), Arc::unwrap_or_clone(other)) {
                None => Expr::Is(one),
                Some(other) => Expr::Any(vec![Expr::Is(one), other.into()]),
            },
            (Expr::Any(mut all), other) => {
                all.push(other);
                Expr::Any(all)
            }
            (one, other) => Expr::Any(vec![one, other]),
        }
    }

    pub fn any(all: impl IntoIterator<Item = Expr>) -> Expr {
        all.into_iter().fold(Expr::Const(false), Expr::or)
    }

    /// Returns the formula with each test replaced by another formula.
    pub fn map(&self, with: &dyn Fn(&Arc<Atom>) -> Expr) -> Expr {
        match self {
            Expr::Const(holds) => Expr::Const(*holds),
            Expr::Is(atom) => with(atom),
            Expr::Not(inner) => inner.map(with).not(),
            Expr::All(all) => all.iter().map(|one| one.map(with)).fold(Expr::Const(true), Expr::and),
            Expr::Any(all) => Expr::any(all.iter().map(|one| one.map(with))),
        }
    }

    /// The formula with hosts that are compared as in HAProxy, negated or not.
    pub fn with_exact_hosts(&self) -> Expr {
        self.map(&|atom| match &**atom {
            Atom::Host(test) => Cond::new(Key::Header("Host".to_string()), test.exact()).into(),
            _ => Expr::Is(Arc::clone(atom)),
        })
    }

    /// The formula with these tests unknown where they are not negated.
    pub fn doubted(&self, which: &dyn Fn(&Atom) -> bool, reason: &str, negated: bool) -> Expr {
        let each = |all: &[Expr]| all.iter().map(|one| one.doubted(which, reason, negated)).collect::<Vec<_>>();
        match self {
            Expr::Is(atom) if !negated && which(atom) => Expr::unknown(reason),
            Expr::Const(_) | Expr::Is(_) => self.clone(),
            Expr::Not(inner) => inner.doubted(which, reason, !negated).not(),
            Expr::All(all) => each(all).into_iter().fold(Expr::Const(true), Expr::and),
            Expr::Any(all) => Expr::any(each(all)),
        }
    }

    /// True if a test in it is of this kind.
    pub fn has(&self, is: &dyn Fn(&Atom) -> bool) -> bool {
        match self {
            Expr::Const(_) => false,
            Expr::Is(atom) => is(atom),
            Expr::Not(inner) => inner.has(is),
            Expr::All(all) | Expr::Any(all) => all.iter().any(|one| one.has(is)),
        }
    }

    /// Reason why it cannot be written, if a test in it has none that is known here.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Expr::Const(_) => None,
            Expr::Is(atom) => match &**atom {
                Atom::Unknown(reason) => Some(reason),
                Atom::Var(..) => Some("variables are not available"),
                _ => None,
            },
            Expr::Not(inner) => inner.reason(),
            Expr::All(all) | Expr::Any(all) => all.iter().find_map(Expr::reason),
        }
    }

    /// The formula with tests that are not known taken as holding, negated or not: it holds for more requests.
    pub fn widened(&self) -> Expr {
        self.settled(&|atom| matches!(atom, Atom::Unknown(_) | Atom::Var(..)), true, false)
    }

    /// The formula with these tests, negated or not, taken as `holds`.
    pub fn settled(&self, which: &dyn Fn(&Atom) -> bool, holds: bool, negated: bool) -> Expr {
        match self {
            Expr::Const(value) => Expr::Const(*value != negated),
            Expr::Is(atom) if which(atom) => Expr::Const(holds),
            Expr::Is(_) if negated => self.clone().not(),
            Expr::Is(_) => self.clone(),
            Expr::Not(inner) => inner.settled(which, holds, !negated),
            Expr::All(all) | Expr::Any(all) => {
                let each = all.iter().map(|one| one.settled(which, holds, negated));
                match matches!(self, Expr::All(_)) != negated {
                    true => each.fold(Expr::Const(true), Expr::and),
                    false => Expr::any(each),
                }
            }
        }
    }

    /// Alternatives of conditions that hold together.
    ///
    /// # Errors
    /// Reason why the condition cannot be written.
    pub fn alternatives(&self, maps: &Maps) -> Result<Vec<Conj>, String> {
        if let Some(reason) = self.reason() {
            return Err(reason.to_string());
        }
        let products = self.products(false).ok_or(format!("it has more than {ALTERNATIVES} alternatives"))?;
        let mut all = Vec::new();
        for product in products {
            all.extend(conj(product, maps)?);
        }
        Ok(all)
    }

    /// Alternatives of which no request fulfils two.
    ///
    /// # Errors
    /// Reason why the condition cannot be written.
    pub fn apart(&self, maps: &Maps) -> Result<Vec<Conj>, String> {
        if let Some(reason) = self.reason() {
            return Err(reason.to_string());
        }
        let mut all = Vec::new();
        self.cases(&mut Vec::new(), &mut all).ok_or(format!("it has more than {ALTERNATIVES} alternatives"))?;
        let mut conjs = Vec::new();
        for product in all {
            conjs.extend(conj(product, maps)?);
        }
        Ok(conjs)
    }

    /// Splits by the first test that is left, until the formula is decided (Shannon's expansion).
    fn cases(&self, before: &mut Product, all: &mut Vec<Product>) -> Option<()> {
        match self.first() {
            None => {
                if *self == Expr::Const(true) {
                    all.push(before.clone());
                }
                (all.len() <= ALTERNATIVES).then_some(())
            }
            Some(first) => {
                for holds in [true, false] {
                    let decided = |atom: &Arc<Atom>| {
                        if *atom == first { Expr::Const(holds) } else { Expr::Is(Arc::clone(atom)) }
                    };
                    before.push((first.clone(), !holds));
                    self.map(&decided).cases(before, all)?;
                    before.pop();
                }
                Some(())
            }
        }
    }

    fn first(&self) -> Option<Arc<Atom>> {
        match self {
            Expr::Const(_) => None,
            Expr::Is(atom) => Some(Arc::clone(atom)),
            Expr::Not(inner) => inner.first(),
            Expr::All(all) | Expr::Any(all) => all.iter().find_map(Expr::first),
        }
    }

    fn products(&self, negated: bool) -> Option<Vec<Product>> {
        match self {
            Expr::Const(holds) => Some(if *holds != negated { vec![Vec::new()] } else { Vec::new() }),
            Expr::Is(atom) => Some(vec![vec![(Arc::clone(atom), negated)]]),
            Expr::Not(inner) => inner.products(!negated),
            Expr::All(all) | Expr::Any(all) => {
                let each = all.iter().map(|one| one.products(negated)).collect::<Option<Vec<_>>>()?;
                match matches!(self, Expr::All(_)) != negated {
                    true => each.into_iter().try_fold(vec![Vec::new()], |all, next| product(&all, &next)),
                    false => absorbed(each.concat()),
                }
            }
        }
    }
}

/// Each of `all` with each of `next`, without those that never hold.
fn product(all: &[Product], next: &[Product]) -> Option<Vec<Product>> {
    let mut out = Vec::new();
    for one in all {
        for other in next {
            let mut both = one.clone();
            let holds = other.iter().all(|(atom, negated)| {
                if !both.contains(&(atom.clone(), *negated)) {
                    both.push((atom.clone(), *negated));
                }
                !both.contains(&(atom.clone(), !negated))
            });
            if holds {
                out.push(both);
            }
        }
        if out.len() > 4 * ALTERNATIVES {
            return None;
        }
    }
    absorbed(out)
}

/// Alternatives without those that others imply. `None` if there are too many.
fn absorbed(all: Vec<Product>) -> Option<Vec<Product>> {
    let mut out: Vec<Product> = Vec::new();
    for one in all {
        let is_within = |inner: &Product, outer: &Product| inner.iter().all(|literal| outer.contains(literal));
        if out.iter().any(|other| is_within(other, &one)) {
            continue;
        }
        out.retain(|other| !is_within(&one, other));
        out.push(one);
    }
    (out.len() <= ALTERNATIVES).then_some(out)
}

/// Joins the conditions of an alternative; `None` if it never holds.
fn conj(literals: Product, maps: &Maps) -> Result<Option<Conj>, String> {
    let mut conj = Conj::default();
    for (atom, negated) in literals {
        let cond = match &*atom {
            Atom::Is(cond) => cond.clone(),
            Atom::Field(test) => test.cond(),
            Atom::Host(test) => test.cond(negated),
            Atom::ClientFile(file) => {
                conj.client_files.push((file.clone(), negated));
                continue;
            }
            Atom::Rate(rate) if !negated => {
                conj.rates.push(rate.clone());
                continue;
            }
            Atom::Rate(_) => return Err("a negated rate".to_string()),
            Atom::Auth(list) => {
                conj.auth.push((list.clone(), negated));
                continue;
            }
            Atom::Var(..) => return Err("variables are not available".to_string()),
            Atom::Unknown(reason) => return Err(reason.clone()),
        };
        let cond = match if negated { cond.negate() } else { cond } {
            // There are only two schemes: not `https` is `http`.
            cond if cond.key == Key::Scheme && cond.negated => Cond::one_of(Key::Scheme, ["http"]),
            cond => cond,
        };
        let of_client = if cond.key == Key::Client { CLIENT } else { "" };
        match maps.both(&conj.matching, &Match::of([cond])) {
            Ok(matching) => conj.matching = matching,
            Err(Apart::Never) => return Ok(None),
            Err(Apart::Unwritable) => {
                return Err(format!("{of_client}it has two conditions on the same part of a request"));
            }
        }
    }
    Ok(Some(conj))
}
