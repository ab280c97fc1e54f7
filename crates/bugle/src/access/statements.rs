//! The SQL of access, made once for the schema that is used.

crate::statements::statements!(
    /// Every statement of access: one `.sql` file each.
    create_key,
    list_keys,
    revoke_key,
    find_keys,
    note_use,
    has_keys,
);
