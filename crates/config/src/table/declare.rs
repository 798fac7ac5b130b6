//! [`table!`]: declares a struct of the plan together with the rows of its keys.

use super::lines::Lines;
use super::reader::default_of;
use super::row::{Absent, Key, Kind, Table};
use super::section::Section;
use crate::source::Span;

/// A struct whose fields are keys of a table.
pub(crate) trait Declared: Clone + PartialEq + Sized {
    /// The table that it is read from.
    const TABLE: &'static Table;

    /// Reads a table of a file, with the rows' defaults for keys that it does not set.
    fn of(section: &Section) -> Self;

    /// The keys that differ from `base`, the values in effect if a key is not set.
    fn lines(&self, base: &Self) -> Lines;

    /// The values of a table that sets nothing, made once: thousands of tables are compared with them.
    fn unset() -> &'static Self;

    /// A table that sets nothing.
    fn blank(span: Span) -> Section {
        Section::new(Self::TABLE, span, default_of)
    }
}

/// Declares a table. For each field of the struct:
///
/// ```text
/// /// Docs of the field.
/// field: Type = Key { name: "key", kind: ..., absent: ..., help: ..., why: ... };
/// ```
///
/// The type is a [`Field`](super::Field), which reads and writes the value of the key. Where that is not
/// enough:
///
/// - `field: Type = Key { ... }, read f;`: `f(&Section) -> Type`, for a default that depends on other keys.
/// - `field: Type, rows [Key { ... }, ...], read f, write g;`: a field of several keys, or of none;
///   `g(&Struct, base: &Struct, &mut Lines)` adds those keys that differ from `base`.
/// - `field: Type, inline Type;`: a struct whose keys are part of this table instead of a separate table.
///
/// `impl for Type { field = Key { ... }; }` declares the keys of a struct of another crate. Checks over
/// several keys are separate functions beside the table.
macro_rules! table {
    (
        $(#[$tmeta:meta])*
        $tvis:vis static $TABLE:ident = $path:literal, $help:expr $(, inherits $inherits:literal)?;

        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[$doc:meta])*
                $field:ident : $ty:ty
                    $(= $row:expr)? $(, inline $inline:ty)? $(, rows [$($rows:expr),* $(,)?])?
                    $(, read $read:expr)? $(, write $write:expr)? ;
            )*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[$doc])* pub $field: $ty, )*
        }

        impl Default for $name {
            /// The values of a table that sets nothing.
            fn default() -> Self {
                Self::clone($crate::table::Declared::unset())
            }
        }

        $crate::table::table! {
            $(#[$tmeta])*
            $tvis static $TABLE = $path, $help $(, inherits $inherits)?;

            impl for $name {
                $(
                    $field $(= $row)? $(, inline $inline)? $(, rows [$($rows),*])?
                        $(, read $read)? $(, write $write)? ;
                )*
            }
        }
    };
    (
        $(#[$tmeta:meta])*
        $tvis:vis static $TABLE:ident = $path:literal, $help:expr $(, inherits $inherits:literal)?;

        impl for $name:ty {
            $(
                $field:ident
                    $(= $row:expr)? $(, inline $inline:ty)? $(, rows [$($rows:expr),* $(,)?])?
                    $(, read $read:expr)? $(, write $write:expr)? ;
            )*
        }
    ) => {
        $(#[$tmeta])*
        $tvis static $TABLE: $crate::table::Table = $crate::table::Table {
            path: $path,
            help: $help,
            inherits: false $(|| $inherits)?,
            keys: {
                const PARTS: &[&[$crate::table::Key]] = &[$(
                    &[$($row,)? $($($rows,)*)?],
                    $(<$inline as $crate::table::Declared>::TABLE.keys,)?
                )*];
                const ROWS: [$crate::table::Key; $crate::table::count(PARTS)] = $crate::table::joined(PARTS);
                &ROWS
            },
        };

        impl $crate::table::Declared for $name {
            const TABLE: &'static $crate::table::Table = &$TABLE;

            fn of(section: &$crate::table::Section) -> Self {
                Self { $( $field: $crate::table::table!(@read section, [$($row)?] [$($inline)?] $($read)?), )* }
            }

            fn lines(&self, base: &Self) -> $crate::table::Lines {
                let mut lines = $crate::table::Lines::default();
                $( $crate::table::table!(@write self, base, lines, $field, [$($row)?] [$($inline)?] $($write)?); )*
                lines
            }

            $crate::table::unset!($name);
        }

        impl $crate::table::Field for $name {
            fn read(value: $crate::table::Value) -> Self {
                match value {
                    $crate::table::Value::Section(section) => <Self as $crate::table::Declared>::of(&section),
                    _ => <Self as $crate::table::Declared>::unset().clone(),
                }
            }

            fn write(&self, base: &Self, kind: &$crate::table::Kind) -> String {
                $crate::table::Declared::lines(self, base).value(kind)
            }
        }
    };
    (@read $section:ident, [$row:expr] []) => {{
        static ROW: $crate::table::Key = $row;
        $crate::table::Field::read($section.value(ROW.name))
    }};
    (@read $section:ident, [] [$inline:ty]) => {
        <$inline as $crate::table::Declared>::of($section)
    };
    (@read $section:ident, [$($row:expr)?] [] $read:expr) => {
        $read($section)
    };
    (@write $this:ident, $base:ident, $lines:ident, $field:ident, [$row:expr] []) => {{
        static ROW: $crate::table::Key = $row;
        if ROW.is_required() || $this.$field != $base.$field {
            $lines.add(ROW.name, $crate::table::Field::write(&$this.$field, &$base.$field, &ROW.kind));
        }
    }};
    (@write $this:ident, $base:ident, $lines:ident, $field:ident, [] [$inline:ty]) => {
        $lines.append($crate::table::Declared::lines(&$this.$field, &$base.$field))
    };
    (@write $this:ident, $base:ident, $lines:ident, $field:ident, [$($row:expr)?] [] $write:expr) => {
        $write($this, $base, &mut $lines)
    };
}

pub(crate) use table;

/// [`Declared::unset`] of a type.
macro_rules! unset {
    ($name:ty) => {
        fn unset() -> &'static Self {
            static UNSET: std::sync::LazyLock<$name> = std::sync::LazyLock::new(|| {
                let blank = <$name as $crate::table::Declared>::blank($crate::source::Span::whole(0));
                <$name as $crate::table::Declared>::of(&blank)
            });
            &UNSET
        }
    };
}

pub(crate) use unset;

/// Total number of rows in all parts.
pub(crate) const fn count(parts: &[&[Key]]) -> usize {
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

/// Concatenation of all parts, which have `N` rows together.
pub(crate) const fn joined<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    let mut all = [Key { name: "", kind: Kind::Bool, absent: Absent::Means(""), help: "", why: "" }; N];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            all[at] = parts[part][row];
            (at, row) = (at + 1, row + 1);
        }
        part += 1;
    }
    all
}
