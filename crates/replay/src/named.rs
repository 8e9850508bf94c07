//! `named_enum!`: an enum whose variants have fixed names in outputs.

/// Declares an enum, its array of all variants (`ALL`), and `name`, which returns the name of a variant in tables, JSON
/// and CSV. Each name is written next to its variant, so the three cannot disagree.
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        $visibility:vis enum $type:ident {
            $($(#[$variant_about:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        $visibility enum $type {
            $($(#[$variant_about])* $variant,)+
        }

        impl $type {
            /// All variants, in the order of their declaration.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];

            /// Returns the name used in outputs.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }
        }
    };
}
