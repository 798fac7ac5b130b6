//! Families of generic netlink: a kernel's subsystem by its name, and commands to it.

use super::attributes::{Attributes, Payload};
use super::message::Error;
use super::socket::{GENERIC, Socket};
use rustix::io::Errno;

/// Bytes of a command's header: the command, the version, and two that are reserved.
pub const HEAD: usize = 4;
/// Family that knows the others, its command and its attributes.
const CONTROL: u16 = 16;
const CONTROL_VERSION: u8 = 1;
const FAMILY_OF: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Family of generic netlink, with a socket to it.
#[derive(Debug)]
pub struct Family {
    socket: Socket,
    id: u16,
    version: u8,
}

impl Family {
    /// Looks a family up. The kernel loads its module, if there is any and its modules allow it.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no such family; the socket fails.
    pub fn open(name: &str, version: u8) -> Result<Family, Error> {
        let mut socket = Socket::open(GENERIC)?;
        let mut payload = Payload::new(&[FAMILY_OF, CONTROL_VERSION, 0, 0]);
        payload.push_text(FAMILY_NAME, name);
        let answers = socket.request(CONTROL, 0, &payload)?;
        let id = answers.iter().find_map(|answer| Attributes::after(HEAD, &answer.payload).first(FAMILY_ID)?.u16());
        let id = id.ok_or(Error::Refused(Errno::NOENT, None))?;
        Ok(Family { socket, id, version })
    }

    /// Begins a request of this family.
    pub fn payload(&self, command: u8) -> Payload {
        Payload::new(&[command, self.version, 0, 0])
    }

    /// Sends a request, and calls `answer` with the attributes of each answer.
    ///
    /// # Errors
    /// The kernel refuses it, or the socket fails.
    pub fn request(
        &mut self,
        flags: u16,
        payload: &Payload,
        mut answer: impl FnMut(Attributes<'_>),
    ) -> Result<(), Error> {
        for message in self.socket.request(self.id, flags, payload)? {
            answer(Attributes::after(HEAD, &message.payload));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_of_families_is_found_by_name() {
        let mut family = Family::open("nlctrl", 2).expect("every kernel has it");
        assert_eq!(family.id, CONTROL);
        let mut names = Vec::new();
        let payload = family.payload(FAMILY_OF);
        let dump = family.request(super::super::DUMP, &payload, |family| {
            names.extend(family.first(FAMILY_NAME).and_then(|name| Some(name.text()?.to_owned())));
        });
        assert_eq!(dump, Ok(()));
        assert!(names.iter().any(|name| name == "nlctrl"), "{names:?}");
    }

    #[test]
    fn a_family_that_does_not_exist_is_an_error_of_the_kernel() {
        let error = Family::open("EVENKEEL-NONE", 1).expect_err("there is no such family");
        assert!(error.is(Errno::NOENT), "{error}");
    }
}
