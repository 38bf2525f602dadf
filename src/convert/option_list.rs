//! What is made of a list of options, in which each is written once: what it does, its name in a plan and in Python,
//! and how it is given. `fields` makes a struct of them, `builders` the methods of a
//! [`Conversion`](super::Conversion), which may have another name: `drop: names as drop_fields`.
//!
//! | given as | stored as |
//! | --- | --- |
//! | `flag`, `unless` | a boolean, which `unless` turns round |
//! | `names`, `text`, `path` | `Vec<String>`, `Option<String>`, `Option<PathBuf>` |
//! | `value(bytes: u64)`, `plain(split: Split)` | `Option<u64>`, `Split` |
//! | `own(Option<char>)` | that, with a method that is not made here |

/// The struct of the options, in the order of the plan. `..` is a struct with more.
macro_rules! fields {
    (
        $name:ident, $($path:ident).+,
        $($(#[$doc:meta])* $field:ident: $kind:ident $(($($arg:tt)+))? $(as $method:ident)?,)*
        $(
            ..$part:ident: $of:ident,
            $(
                $(#[$more_doc:meta])*
                $more:ident: $more_kind:ident $(($($more_arg:tt)+))? $(as $more_method:ident)?,
            )*
        )?
    ) => {
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub(super) struct $name {
            $(
                #[serde(skip_serializing_if = "is_default")]
                pub(super) $field:
                    $crate::convert::option_list::stored!($kind $(($($arg)+))?),
            )*
            $(
                #[serde(flatten)]
                pub(super) $part: $of,
                $(
                    #[serde(skip_serializing_if = "is_default")]
                    pub(super) $more:
                        $crate::convert::option_list::stored!($more_kind $(($($more_arg)+))?),
                )*
            )?
        }

        impl $name {
            /// The names of all of them.
            pub(super) const NAMES: &[&str] = &[
                $(stringify!($field),)*
                $($(stringify!($more),)*)?
            ];
        }
    };
}

macro_rules! stored {
    (flag) => { bool };
    (unless) => { bool };
    (names) => { Vec<String> };
    (text) => { Option<String> };
    (path) => { Option<std::path::PathBuf> };
    (value($name:ident: $of:ty)) => { Option<$of> };
    (plain($name:ident: $of:ty)) => { $of };
    (own($of:ty)) => { $of };
}

/// The methods that set them.
macro_rules! builders {
    ($name:ident, $($path:ident).+, $($list:tt)*) => {
        $crate::convert::option_list::builder! { ($($path).+) $($list)* }
    };
}

/// The same, one after the other.
macro_rules! builder {
    ($path:tt) => {};
    ($path:tt ..$part:ident: $of:ident, $($rest:tt)*) => {
        $crate::convert::option_list::builder! { $path $($rest)* }
    };
    (
        $path:tt $(#[$doc:meta])*
        $field:ident: $kind:ident $(($($arg:tt)+))? $(as $method:ident)?, $($rest:tt)*
    ) => {
        $crate::convert::option_list::method! {
            $kind $(($($arg)+))? => $path [$(#[$doc])*] $field [$($method)? $field]
        }
        $crate::convert::option_list::builder! { $path $($rest)* }
    };
}

macro_rules! method {
    (own($of:ty) => $($to:tt)*) => {};
    (flag => $($to:tt)*) => {
        $crate::convert::option_list::method! { (yes: bool) yes => $($to)* }
    };
    (unless => $($to:tt)*) => {
        $crate::convert::option_list::method! { (yes: bool) !yes => $($to)* }
    };
    (text => $($to:tt)*) => {
        $crate::convert::option_list::method! { (text: impl Into<String>) Some(text.into()) => $($to)* }
    };
    (names => $($to:tt)*) => {
        $crate::convert::option_list::method! {
            (names: impl IntoIterator<Item = impl Into<String>>)
            names.into_iter().map(Into::into).collect() => $($to)*
        }
    };
    (path => $($to:tt)*) => {
        $crate::convert::option_list::method! {
            (path: impl AsRef<std::path::Path>) Some(path.as_ref().to_path_buf()) => $($to)*
        }
    };
    (value($value:ident: $of:ty) => $($to:tt)*) => {
        $crate::convert::option_list::method! { ($value: $of) Some($value) => $($to)* }
    };
    (plain($value:ident: $of:ty) => $($to:tt)*) => {
        $crate::convert::option_list::method! { ($value: $of) $value => $($to)* }
    };
    (
        ($given:ident: $of:ty) $value:expr =>
        ($($path:tt)+) [$(#[$doc:meta])*] $field:ident [$method:ident $($same:ident)?]
    ) => {
        $(#[$doc])*
        pub fn $method(mut self, $given: $of) -> Self {
            self.$($path)+.$field = $value;
            self
        }
    };
}

pub(super) use {builder, builders, fields, method, stored};
