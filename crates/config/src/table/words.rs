//! [`words!`]: declares an enum together with its words in the configuration.

/// An enum whose variants are words of the configuration.
pub(crate) trait Words: Copy + PartialEq + Sized + 'static {
    /// Variants with their words, in the order of the docs. The first substitutes for a rejected value.
    const ALL: &'static [(Self, &'static str)];

    /// Word of the variant in the configuration.
    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(variant, _)| *variant == self).map_or("", |(_, word)| word)
    }

    /// Variant of a word; `None` if unknown.
    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(variant, _)| *variant)
    }
}

/// Declares an enum and the word of each variant, in the order of the docs; rows use
/// `Kind::Choice(NAME::WORDS)`. For an enum of another crate it declares only a constant with the words,
/// after `"off"` if the key may be off.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$doc:meta])* $variant:ident = $word:literal, )*
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $( $(#[$doc])* $variant, )*
        }

        impl $name {
            /// Words of the configuration, in the order of the docs.
            #[allow(dead_code, reason = "an enum has a use for one of the two")]
            pub(crate) const WORDS: &'static [&'static str] = &[$($word),*];
            /// `"off"` followed by [`Self::WORDS`].
            #[allow(dead_code, reason = "an enum has a use for one of the two")]
            pub(crate) const OFF_OR_WORDS: &'static [&'static str] = &["off", $($word),*];
        }

        $crate::table::words! { @impl $name { $($variant = $word,)* } }
    };
    ($(#[$meta:meta])* const $WORDS:ident for $($off:literal or)? $name:ident { $( $variant:ident = $word:literal, )* }) => {
        $(#[$meta])*
        const $WORDS: &[&str] = &[$($off,)? $($word),*];

        $crate::table::words! { @impl $name { $($variant = $word,)* } }
    };
    (@impl $name:ident { $( $variant:ident = $word:literal, )* }) => {
        impl $crate::table::Words for $name {
            const ALL: &'static [($name, &'static str)] = &[$(($name::$variant, $word)),*];
        }

        impl $crate::table::Field for $name {
            fn read(value: $crate::table::Value) -> $name {
                let $crate::table::Value::Word(word) = value else {
                    return <$name as $crate::table::Words>::ALL[0].0;
                };
                <$name as $crate::table::Words>::of_word(word).unwrap_or(<$name as $crate::table::Words>::ALL[0].0)
            }

            fn write(&self, _: &$name, _: &$crate::table::Kind) -> String {
                $crate::table::quote($crate::table::Words::word(*self))
            }
        }
    };
}

pub(crate) use words;
