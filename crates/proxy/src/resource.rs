//! Resources of filters: state that all workers share and that may outlive a plan, such as lists of networks, counts of
//! limits and stored responses. Rows of the table of filters name their types, and [`Resources`] holds the values.

use evenkeel_config::Plan;
use evenkeel_runtime::Diagnostic;
use prometheus_client::encoding::DescriptorEncoder;
use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

/// State of a filter that all workers share. Each plan has a value, made from the value of the plan before.
pub trait Resource: Any + Send + Sync {
    /// True if [`next`](Self::next) changes `before`. It then runs when the plan is installed, and must not fail.
    /// Otherwise it runs while the plan is prepared, and changes nothing.
    const TAKES_OVER: bool = false;

    /// Makes the resource of a plan. Useful state of `before` is kept.
    ///
    /// # Errors
    /// Files that cannot be read, and other reasons why this machine cannot run the plan.
    fn next(plan: &Plan, before: Option<&Arc<Self>>) -> Result<Arc<Self>, Vec<Diagnostic>>;

    /// True if there are files to [`look`](Self::look) at.
    fn has_files(&self) -> bool {
        false
    }

    /// Reads files again that have changed and then stayed the same between two calls. Logs wrong files, and keeps
    /// their previous content. Blocks.
    fn look(&self) {}

    /// Writes the metrics of the resource under the plan that runs.
    fn collect(&self, _: &Plan, _: &mut DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}

/// Maker of one type of resource.
#[derive(Clone, Copy)]
pub struct Maker {
    id: fn() -> TypeId,
    takes_over: bool,
    next: Next,
}

/// [`Resource::next`] with the resource before among all of a plan.
type Next = fn(&Plan, &Resources) -> Result<Box<dyn Held>, Vec<Diagnostic>>;

impl Maker {
    pub const fn of<R: Resource>() -> Maker {
        let next = |plan: &Plan, before: &Resources| {
            let next = R::next(plan, before.get::<R>())?;
            Ok(Box::new(next) as Box<dyn Held>)
        };
        Maker { id: TypeId::of::<R>, takes_over: R::TAKES_OVER, next }
    }

    /// True if both make resources of the same type.
    pub fn is_same(&self, other: &Maker) -> bool {
        (self.id)() == (other.id)()
    }
}

/// Resources of a plan, by type.
#[derive(Default)]
pub struct Resources(Vec<Box<dyn Held>>);

impl Resources {
    /// Makes the resources of a plan that can fail. Changes nothing.
    ///
    /// # Errors
    /// Everything that failed.
    pub(crate) fn prepare(makers: &[Maker], plan: &Plan, before: &Resources) -> Result<Resources, Vec<Diagnostic>> {
        let (mut made, mut wrong) = (Resources::default(), Vec::new());
        for maker in makers.iter().filter(|maker| !maker.takes_over) {
            match (maker.next)(plan, before) {
                Ok(next) => made.0.push(next),
                Err(mut problems) => wrong.append(&mut problems),
            }
        }
        if wrong.is_empty() { Ok(made) } else { Err(wrong) }
    }

    /// Adds the resources that take over from `before`.
    pub(crate) fn install(mut self, makers: &[Maker], plan: &Plan, before: &Resources) -> Resources {
        for maker in makers.iter().filter(|maker| maker.takes_over) {
            self.0.extend((maker.next)(plan, before).ok());
        }
        self
    }

    /// Resource of a type; `None` if no row of the table names it.
    pub fn get<R: Resource>(&self) -> Option<&Arc<R>> {
        self.0.iter().find_map(|held| held.as_any().downcast_ref())
    }

    /// Resource of a type that a row of the table names.
    pub(crate) fn of<R: Resource>(&self) -> &Arc<R> {
        self.get().expect("a row of the table of filters names it")
    }

    /// True if there are files to look at.
    pub fn has_files(&self) -> bool {
        self.0.iter().any(|held| held.has_files())
    }

    /// Reads files again that have changed, see [`Resource::look`]. Blocks.
    pub fn look(&self) {
        self.0.iter().for_each(|held| held.look());
    }

    /// Writes the metrics of all resources.
    pub(crate) fn collect(&self, plan: &Plan, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|held| held.collect(plan, to))
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resources").field(&self.0.len()).finish()
    }
}

trait Held: Send + Sync {
    /// The `Arc` of the resource.
    fn as_any(&self) -> &dyn Any;

    fn has_files(&self) -> bool;

    fn look(&self);

    fn collect(&self, plan: &Plan, to: &mut DescriptorEncoder<'_>) -> fmt::Result;
}

impl<R: Resource> Held for Arc<R> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn has_files(&self) -> bool {
        R::has_files(self)
    }

    fn look(&self) {
        R::look(self);
    }

    fn collect(&self, plan: &Plan, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        R::collect(self, plan, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Number of plans that it was made for.
    struct Plans(u64);

    impl Resource for Plans {
        fn next(plan: &Plan, before: Option<&Arc<Plans>>) -> Result<Arc<Plans>, Vec<Diagnostic>> {
            match plan.pools.len() {
                1 => Ok(Plans(before.map_or(1, |before| before.0 + 1)).into()),
                pools => Err(vec![Diagnostic::machine(format!("{pools} pools"))]),
            }
        }
    }

    /// Number of installations, which stays the same value.
    #[derive(Default)]
    struct Installed(AtomicU64);

    impl Resource for Installed {
        const TAKES_OVER: bool = true;

        fn next(_: &Plan, before: Option<&Arc<Installed>>) -> Result<Arc<Installed>, Vec<Diagnostic>> {
            let stays = before.cloned().unwrap_or_default();
            stays.0.fetch_add(1, Ordering::Relaxed);
            Ok(stays)
        }
    }

    const MAKERS: [Maker; 2] = [Maker::of::<Installed>(), Maker::of::<Plans>()];

    fn plan(pools: usize) -> Plan {
        let pools = (0..pools)
            .map(|n| format!("[pool.p{n}]\nendpoints = ['127.0.0.1:1']\n[[route]]\npool = 'p{n}'\norder = {n}\n"));
        let text = format!("[listener.a]\nbind = ['127.0.0.1:2']\n{}", pools.collect::<String>());
        let outcome = evenkeel_config::parse_str("plan", &text, &|_| None);
        outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics))
    }

    fn counts(resources: &Resources) -> (u64, u64) {
        (resources.of::<Plans>().0, resources.of::<Installed>().0.load(Ordering::Relaxed))
    }

    #[test]
    fn each_resource_follows_the_one_before_it_and_a_plan_that_is_only_prepared_changes_nothing() {
        let prepare = |plan: &Plan, before: &Resources| Resources::prepare(&MAKERS, plan, before);
        let (good, none) = (plan(1), Resources::default());
        let first = prepare(&good, &none).expect("it fits").install(&MAKERS, &good, &none);
        assert_eq!(counts(&first), (1, 1));
        prepare(&good, &first).expect("it fits");
        let wrong = prepare(&plan(2), &first).expect_err("it has two pools");
        assert_eq!((wrong.len(), counts(&first)), (1, (1, 1)));
        let second = prepare(&good, &first).expect("it fits").install(&MAKERS, &good, &first);
        assert_eq!((counts(&first), counts(&second)), ((1, 2), (2, 2)));
        assert!(Arc::ptr_eq(first.of::<Installed>(), second.of::<Installed>()));
    }
}
