//! Unix sockets of the admin, and the folders in which processes have theirs if their configuration names none. The
//! mode of the file decides which users may connect, and so may change things.

use rustix::process::{Pid, Uid, geteuid, test_kill_process};
use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Access for the owner and the group of the process.
const MODE: u32 = 0o660;

/// Folder of the sockets of root, and of services that systemd starts with `RuntimeDirectory=evenkeel`.
const SYSTEM: &str = "/run/evenkeel";

/// Sockets that a process id may have: of itself, and of processes before it whose successors still run.
const SAME_PID_MAX: u32 = 16;

/// Listens at `path`. A socket without a listener, as a killed process leaves it, is replaced.
///
/// # Errors
/// Another process listens there, the path is something else than a socket, or as `bind(2)`.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    Ok(listener)
}

/// A folder in which each process has its socket, called by its process id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The system's, which only root makes.
    System,
    /// The user's own. Other users must not be able to write to it, nor to have made it.
    User,
}

/// A socket on which a process listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    /// False if this user may not connect to it.
    pub may_connect: bool,
}

impl Folder {
    /// Returns the folder in which a process of this user has its socket: `$RUNTIME_DIRECTORY`, which systemd sets; for
    /// root `/run/evenkeel`; otherwise `evenkeel` in `$XDG_RUNTIME_DIR`, or a folder for temporary files with the
    /// number of the user. Without a place for those, as in an image of nothing but the program, `/run/evenkeel` if it
    /// is there.
    pub fn own() -> Folder {
        match of_service() {
            Some(path) => Folder { path, kind: Kind::System },
            None => Folder::of(geteuid(), absolute("XDG_RUNTIME_DIR"), &env::temp_dir(), Path::new(SYSTEM)),
        }
    }

    fn of(user: Uid, runtime: Option<PathBuf>, temporary: &Path, system: &Path) -> Folder {
        let folder = |path, kind| Folder { path, kind };
        match runtime.filter(|path| path.is_dir()) {
            _ if user.is_root() => folder(system.into(), Kind::System),
            Some(runtime) => folder(runtime.join("evenkeel"), Kind::User),
            None if !temporary.is_dir() && system.is_dir() => folder(system.into(), Kind::User),
            None => folder(temporary.join(format!("evenkeel-{}", user.as_raw())), Kind::User),
        }
    }

    /// Returns the folders in which commands of this user look for processes.
    pub fn searched() -> Vec<Folder> {
        let own = Folder::own();
        match of_service() {
            None if own.kind == Kind::User && own.path != Path::new(SYSTEM) => {
                vec![own, Folder { path: SYSTEM.into(), kind: Kind::System }]
            }
            _ => vec![own],
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if a socket at this path was opened by [`open`](Self::open).
    pub fn has(&self, path: &Path) -> bool {
        path.parent() == Some(&self.path) && pid_of(path).is_some()
    }

    /// Opens the socket of this process, and makes the folder if it is not there. Sockets that ended processes have
    /// left are removed.
    ///
    /// # Errors
    /// The folder cannot be made or belongs to another user, or as `bind(2)`.
    pub fn open(&self) -> io::Result<(PathBuf, UnixListener)> {
        let mode = if self.kind == Kind::System { 0o755 } else { 0o700 };
        match DirBuilder::new().mode(mode).create(&self.path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => self.check()?,
        }
        self.clean();
        let pid = std::process::id();
        let names = (1..=SAME_PID_MAX).map(|n| if n == 1 { format!("{pid}.sock") } else { format!("{pid}-{n}.sock") });
        for path in names.map(|name| self.path.join(name)) {
            match listen(&path) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                listener => return Ok((path, listener?)),
            }
        }
        Err(ErrorKind::AddrInUse.into())
    }

    /// Returns the sockets on which processes listen, in the order of their names.
    pub fn list(&self) -> Vec<Found> {
        if self.check().is_err() {
            return Vec::new();
        }
        let found = |path: PathBuf| match UnixStream::connect(&path) {
            Ok(_) => Some(Found { path, may_connect: true }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(Found { path, may_connect: false }),
            Err(_) => None,
        };
        self.sockets().into_iter().filter_map(found).collect()
    }

    /// Fails if another user may have put sockets there.
    fn check(&self) -> io::Result<()> {
        // Not through a link: it may lead anywhere.
        let folder = fs::symlink_metadata(&self.path)?;
        let is_own = folder.uid() == geteuid().as_raw() && folder.mode() & 0o022 == 0;
        match (self.kind, folder.is_dir()) {
            (_, false) => Err(io::Error::other(format!("{} is not a folder", self.path.display()))),
            (Kind::User, true) if !is_own => {
                let why = format!("{} belongs to another user, or others may write to it", self.path.display());
                Err(io::Error::new(ErrorKind::PermissionDenied, why))
            }
            _ => Ok(()),
        }
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let is_socket = |path: &PathBuf| {
            path.extension().is_some_and(|extension| extension == "sock")
                && fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_socket).collect();
        paths.sort();
        paths
    }

    /// Removes the sockets of processes that have ended, as those do that are killed.
    fn clean(&self) {
        for path in self.sockets() {
            // A process that is just starting may have bound its socket and not listen yet.
            let has_ended = |pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
            let is_refused =
                || UnixStream::connect(&path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            if pid_of(&path).is_some_and(has_ended) && is_refused() {
                // Another process may clean at the same time.
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// The process in whose name a socket was opened.
fn pid_of(path: &Path) -> Option<Pid> {
    let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
    let (pid, number) = name.split_once('-').unwrap_or((name, "0"));
    number.parse::<u32>().ok()?;
    Pid::from_raw(pid.parse().ok()?)
}

/// The folder that systemd has made for the service: the first of several.
fn of_service() -> Option<PathBuf> {
    let folders = env::var("RUNTIME_DIRECTORY").ok()?;
    folders.split(':').next().map(PathBuf::from).filter(|path| path.is_absolute())
}

fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        env::temp_dir().join(format!("evenkeel-admin-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_socket_is_replaced_only_if_no_process_listens() {
        let path = temporary("one.sock");
        let first = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(first);
        drop(listen(&path).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "not ours").unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "not ours");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn each_opens_its_own_socket_and_removes_those_of_ended_processes() {
        let folder = Folder { path: temporary("folder"), kind: Kind::User };
        assert_eq!(folder.list(), []);
        let (path, first) = folder.open().unwrap();
        assert_eq!(fs::metadata(&folder.path).unwrap().mode() & 0o777, 0o700);
        let (other, second) = folder.open().unwrap();
        assert!(path != other && folder.has(&path) && folder.has(&other));
        assert!(!folder.has(&folder.path.join("admin.sock")) && !folder.has(Path::new("/1.sock")));
        // A process id is at most 2^22.
        let [left, of_config] = ["99999999.sock", "admin.sock"].map(|name| folder.path.join(name));
        drop([&left, &of_config].map(|path| UnixListener::bind(path).unwrap()));
        let found = |path: &PathBuf| Found { path: path.clone(), may_connect: true };
        let mut all = [found(&path), found(&other)];
        all.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(folder.list(), all);
        drop(first);
        let (again, _third) = folder.open().unwrap();
        assert_eq!(again, path);
        assert!(!left.exists() && of_config.exists(), "a path that a configuration names is not cleaned");
        drop(second);
        fs::remove_dir_all(&folder.path).unwrap();
    }

    #[test]
    fn the_folder_is_where_a_user_can_have_a_socket() {
        let (there, none) = (temporary("there"), temporary("none"));
        fs::create_dir(&there).unwrap();
        let (root, user) = (Uid::ROOT, Uid::from_raw(65_532));
        let path = |user, runtime: Option<&PathBuf>, tmp, system| Folder::of(user, runtime.cloned(), tmp, system).path;
        assert_eq!(path(root, Some(&there), &there, &none), none);
        assert_eq!(path(user, Some(&there), &there, &there), there.join("evenkeel"));
        assert_eq!(path(user, Some(&none), &there, &there), there.join("evenkeel-65532"));
        // In an image.
        assert_eq!(path(user, None, &none, &there), there);
        assert_eq!(path(user, None, &none, &none), none.join("evenkeel-65532"));
        fs::remove_dir(&there).unwrap();
    }

    #[test]
    fn a_folder_of_another_user_or_behind_a_link_is_refused() {
        let path = temporary("open");
        fs::create_dir(&path).unwrap();
        let folder = Folder { path: path.clone(), kind: Kind::User };
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(folder.open().unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(folder.list(), []);
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        assert!(folder.open().is_ok());
        let link = temporary("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Folder { path: link.clone(), kind: Kind::User }.open().is_err());
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(&path).unwrap();
    }
}
