//! States that filters keep of a client connection, which its requests share.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

/// States of a connection, by their type. Nothing is allocated before a filter keeps something.
#[derive(Default)]
pub struct ConnectionStates(RefCell<Vec<Rc<dyn Any>>>);

impl ConnectionStates {
    /// Returns the state of this type, made at its first use.
    pub fn get<S: Default + 'static>(&self) -> Rc<S> {
        let mut all = self.0.borrow_mut();
        let found = all.iter().find_map(|state| state.clone().downcast().ok());
        found.unwrap_or_else(|| {
            let new = Rc::<S>::default();
            all.push(new.clone());
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn requests_of_a_connection_share_its_states() {
        let states = ConnectionStates::default();
        assert_eq!(states.0.borrow().capacity(), 0);
        states.get::<Cell<u8>>().set(3);
        assert_eq!((states.get::<Cell<u8>>().get(), states.get::<Cell<u16>>().get()), (3, 0));
    }
}
