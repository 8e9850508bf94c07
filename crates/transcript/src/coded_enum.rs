//! Enums with fixed codes, as packed logs store them.

/// Declares a fieldless enum with a fixed code per variant, the list of all variants, and `from_code`.
macro_rules! coded_enum {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $code:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_attribute])* $variant = $code,)+
        }

        impl $name {
            /// All variants, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Returns the variant with this code, or `None` if no variant has it.
            pub fn from_code(code: u64) -> Option<$name> {
                match code {
                    $($code => Some($name::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
