//! Memory of the process: what the start or a change of the configuration leaves behind is given back to the kernel, and
//! [`pages`] hold large bodies.

pub mod pages;

use libmimalloc_sys as _; // has the function
use rustix::mm::{Advice, madvise};
use std::ffi::c_int;
use std::ops::Range;

unsafe extern "C" {
    /// Frees what the allocator of the program keeps; with `force` at once.
    safe fn mi_collect(force: bool);
}

/// Smallest page of memory in bytes, and largest with which programs are aligned.
const PAGE: usize = 64 * 1024;

/// Gives back what a start or a change of the configuration no longer needs: memory that this thread has freed, which the allocator
/// keeps for as long as nothing more is freed, and pages of the program, of which serving needs a tenth. Those stay in the cache of the
/// kernel, so a page that is used again costs a fault of a microsecond, and no read.
pub fn give_back() {
    mi_collect(true);
    for Range { start, end } in read_only_parts() {
        let (start, end) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
        if start < end {
            // SAFETY: the pages belong to a mapping of a file that is never written, so the kernel gives the same bytes again. A
            // refusal changes nothing.
            let _ = unsafe { madvise(std::ptr::without_provenance_mut(start), end - start, Advice::LinuxDontNeed) };
        }
    }
}

/// Addresses of the segments of the program that are never written, not even to relocate them.
fn read_only_parts() -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    // SAFETY: the callback gets the vector as it is passed here, and runs before this returns.
    unsafe { libc::dl_iterate_phdr(Some(note_program), (&raw mut parts).cast()) };
    parts
}

/// Notes the segments of the first object, which is the program, and ends the walk.
unsafe extern "C" fn note_program(info: *mut libc::dl_phdr_info, _: usize, parts: *mut libc::c_void) -> c_int {
    // SAFETY: libc passes a valid description, and `read_only_parts` its vector.
    let (info, parts) = unsafe { (&*info, &mut *parts.cast::<Vec<Range<usize>>>()) };
    if info.dlpi_phdr.is_null() {
        return 1;
    }
    // SAFETY: the headers have this number.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0) {
        let at = |offset: u64| usize::try_from(info.dlpi_addr.wrapping_add(offset)).unwrap_or(usize::MAX);
        parts.push(at(header.p_vaddr)..at(header.p_vaddr.saturating_add(header.p_memsz)));
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_on_without_its_pages() {
        let parts = read_only_parts();
        let here = a_program_runs_on_without_its_pages as fn() as usize;
        assert!(parts.iter().any(|part| part.contains(&here)), "{here:x} is in {parts:x?}");
        let text = String::from("some text");
        let written = &raw const text as usize;
        assert!(!parts.iter().any(|part| part.contains(&written)));
        for _ in 0..3 {
            give_back();
            assert_eq!(text, "some text");
        }
    }
}
