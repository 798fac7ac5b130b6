//! States of the filters for a request. A filter makes its state when it keeps something; the exchange drops them.

use std::any::Any;
use std::cell::Cell;

/// State that a filter keeps for a request; `None` until it keeps something.
pub type Own<S> = Option<Box<S>>;

/// Place of a filter among the states of a request: its index in the table of filters.
pub type Place = u16;

/// States of the filters for a request. Nothing is allocated before a filter keeps something.
#[derive(Default)]
pub struct States(Cell<Vec<(Place, Box<dyn Any>)>>);

impl States {
    /// Takes the state of a filter out; `None` if it keeps none.
    #[inline]
    pub fn take<S: 'static>(&self, at: Place) -> Own<S> {
        if size_of::<S>() == 0 { None } else { self.take_out(at) }
    }

    fn take_out<S: 'static>(&self, at: Place) -> Own<S> {
        let mut all = self.0.take();
        let found = all.iter().position(|(of, _)| *of == at).map(|found| all.swap_remove(found).1);
        self.0.set(all);
        found?.downcast().ok()
    }

    /// Keeps the state of a filter, which was taken out before.
    #[inline]
    pub fn put<S: 'static>(&self, at: Place, own: Own<S>) {
        if size_of::<S>() > 0
            && let Some(state) = own
        {
            let mut all = self.0.take();
            all.push((at, state));
            self.0.set(all);
        }
    }

    /// Drops the states of all filters but those for which `stays` is true.
    pub fn retain(&mut self, stays: impl Fn(Place) -> bool) {
        self.0.get_mut().retain(|(at, _)| stays(*at));
    }

    /// Takes the state of a filter out for the time of `run`.
    #[inline]
    pub fn with<S: 'static, T>(&self, at: Place, run: impl FnOnce(&mut Own<S>) -> T) -> T {
        let mut own = self.take(at);
        let result = run(&mut own);
        self.put(at, own);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn each_filter_gets_its_own_state_and_all_are_dropped_with_the_request() {
        let states = States::default();
        let shared = Rc::new(());
        states.put(7, Some(Box::new(shared.clone())));
        states.put(3, Some(Box::new(5_u32)));
        states.with(3, |own: &mut Own<u32>| *own.as_deref_mut().expect("it was kept") += 1);
        assert_eq!(states.take(3), Some(Box::new(6_u32)));
        assert_eq!(states.take::<u32>(3), None, "it was taken out");
        assert_eq!(states.take::<u32>(7), None, "the state of another type");
        states.put(7, Some(Box::new(shared.clone())));
        assert_eq!(Rc::strong_count(&shared), 2);
        drop(states);
        assert_eq!(Rc::strong_count(&shared), 1);
    }

    #[test]
    fn a_filter_without_a_state_allocates_nothing() {
        let states = States::default();
        states.put(0, Some(Box::new(())));
        states.with(1, |own: &mut Own<u32>| assert!(own.is_none()));
        assert_eq!(states.0.take().capacity(), 0);
    }
}
