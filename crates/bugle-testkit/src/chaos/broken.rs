//! Bugle, broken on purpose: one safety taken out of the SQL of one place. Each must turn the checker red, or the checker proves nothing.
//!
//! The product has no switch for this: the functions of a test's own schema are read back from the database, changed and replaced.

use bugle::Bugle;
use sqlx::AssertSqlSafe;

/// One safety to take out.
#[derive(Debug, Clone, Copy)]
pub struct Break {
    /// What is broken, in words.
    pub name: &'static str,
    function: &'static str,
    /// What is found once in the function, and what takes its place.
    changes: &'static [(&'static str, &'static str)],
    /// What else has to go, because it would catch the first.
    also: &'static str,
}

/// A quick look is a statement of its own that knows nothing of a broken `look`: it must leave the claims to it.
const QUICK_LOOKS_REFUSED: &str = "
    CREATE FUNCTION bugle.refuse_quick_looks() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RETURN CASE WHEN current_query() NOT LIKE '%single ask%' THEN NEW END;
    END $$;
    CREATE TRIGGER refuse_quick_looks BEFORE INSERT ON bugle.cursor FOR EACH ROW EXECUTE FUNCTION bugle.refuse_quick_looks()";

/// Settling without the proof of a row and a lease: the job's number is enough.
pub const ACK_WITHOUT_PROOF: Break = Break {
    name: "ack without the row's key and the lease: a stale worker ends a job that somebody else holds",
    function: "ack",
    changes: &[(
        "AND h.x = u.x AND h.id = u.id OFFSET 0\n      ) k\n      CROSS JOIN LATERAL (SELECT e.worker FROM bugle.lease e WHERE e.token = u.token OFFSET 0) l",
        "AND h.id = u.id OFFSET 0\n      ) k\n      LEFT JOIN LATERAL (SELECT e.worker FROM bugle.lease e WHERE e.token = u.token OFFSET 0) l ON true",
    )],
    also: "",
};

/// The same of what takes jobs out of a worker's hands: of steps, and of jobs that fail or are put off.
pub const TAKE_WITHOUT_PROOF: Break = Break {
    name: "a job is taken without the row's key and the lease: a stale worker ends a step that somebody else has",
    function: "take_held",
    changes: &[
        ("AND h.x = u.x AND h.id = u.id OFFSET 0", "AND h.id = u.id OFFSET 0"),
        (
            "CROSS JOIN LATERAL (SELECT e.worker FROM bugle.lease e WHERE e.token = u.token OFFSET 0) l",
            "LEFT JOIN LATERAL (SELECT e.worker FROM bugle.lease e WHERE e.token = u.token OFFSET 0) l ON true",
        ),
    ],
    also: "",
};

/// A claim that does not wait for another one.
pub const CLAIM_WITHOUT_THE_LOCK: Break = Break {
    name: "claim without the queue's lock, and without the cursor's key that would refuse it",
    function: "look",
    changes: &[
        ("IF pg_advisory_xact_lock(bugle.claim_class(), p_queue[i]) IS NULL THEN", "IF false THEN"),
        ("    keep := '{}';\n", "    keep := '{}';\n    PERFORM pg_sleep(0.002);\n"),
    ],
    also: "ALTER TABLE bugle.cursor DROP CONSTRAINT cursor_pkey; CREATE INDEX ON bugle.cursor (queue, gen)",
};

/// A cursor that forgets the transactions that were open when it passed.
pub const CURSOR_WITHOUT_OPEN_TRANSACTIONS: Break = Break {
    name: "the cursor forgets which transactions were open: late commits are lost",
    function: "look",
    changes: &[("AS v WHERE v > c.px[l + 1] AND v < px[l + 1])", "AS v WHERE false)")],
    also: "",
};

/// An expiry that costs nothing.
pub const EXPIRY_NOT_COUNTED: Break = Break {
    name: "an ended lease does not use up an attempt",
    function: "sweep",
    changes: &[("attempt + CASE WHEN spared THEN 0 ELSE 1 END,", "attempt,")],
    also: "",
};

/// A sweep that does not care whether the lease has ended.
pub const SWEEP_BEFORE_THE_END: Break = Break {
    name: "leases are swept before they end: two holders",
    function: "sweep",
    changes: &[("until <= this_moment\n", "until <= this_moment + interval '1 hour'\n")],
    also: "",
};

/// An expired lease whose row vanishes while its jobs stay behind the cursor.
pub const SWEEP_THAT_LOSES: Break = Break {
    name: "the sweep removes the lease and leaves the jobs behind the cursor",
    function: "sweep",
    changes: &[
        ("WHERE k.ctid = p.place FOR UPDATE SKIP LOCKED", "WHERE false FOR UPDATE SKIP LOCKED"),
        ("    IF FOUND THEN\n", "    IF false THEN\n"),
    ],
    also: "",
};

/// A due time that nobody waits for.
pub const DUE_TOO_EARLY: Break = Break {
    name: "jobs are moved a while before they are due",
    function: "look",
    changes: &[
        ("ELSIF due <= moment THEN", "ELSIF due <= moment + interval '100 milliseconds' THEN"),
        (
            "bugle.move_due(p_queue[i], p_due_from[i], greatest(p_n[i], 100)) > 0;",
            "bugle.move_early(p_queue[i], p_due_from[i], greatest(p_n[i], 100)) > 0;",
        ),
    ],
    also: "CREATE FUNCTION bugle.move_early(p_queue int, p_from timestamptz, p_most int) RETURNS int LANGUAGE plpgsql AS $$
        BEGIN
          UPDATE bugle.due SET due_at = clock_timestamp() WHERE queue = p_queue AND due_at > clock_timestamp() AND due_at <= clock_timestamp() + interval '100 milliseconds';
          RETURN bugle.move_due(p_queue, p_from, p_most);
        END $$",
};

/// Keys that are taken without looking who has them.
pub const KEYS_IGNORED: Break = Break {
    name: "a key that is taken is taken again",
    function: "take_key",
    changes: &[
        ("AND until > clock_timestamp();", "AND false;"),
        ("    WHERE k.until <= clock_timestamp();", "    WHERE true;"),
    ],
    also: "",
};

/// An ack that is answered with yes whatever happened.
pub const ACK_ALWAYS_YES: Break = Break {
    name: "an ack is answered with yes although the job was lost",
    function: "ack",
    changes: &[("SELECT g.id FROM gone g;", "SELECT g.id FROM gone g UNION SELECT unnest(p_id);")],
    also: "",
};

/// A fail that hands out more attempts than there are.
pub const ATTEMPTS_WITHOUT_END: Break = Break {
    name: "a failed job is tried again although its attempts are used up",
    function: "fail",
    changes: &[(
        "(p_retry_in[t.n] IS NULL OR (t.job).attempt + 1 >= (t.job).max_attempts) AS out_of_attempts",
        "(p_retry_in[t.n] IS NULL) AS out_of_attempts",
    )],
    also: "",
};

/// A claim that does not remember how far the last one came.
pub const CLAIM_FROM_THE_BEGINNING: Break = Break {
    name: "a claim walks over everything that the queue has had since the oldest open transaction",
    function: "look",
    changes: &[(
        "    room := most - late_n;\n",
        "    PERFORM count(*) FROM bugle.job k WHERE k.queue = p_queue[i];\n    room := most - late_n;\n",
    )],
    also: "",
};

/// A count that is not made.
pub const ACKS_NOT_COUNTED: Break = Break {
    name: "acks are not counted",
    function: "ack",
    changes: &[(
        "SELECT p_queue, 4, count(*) FROM gone HAVING count(*) > 0",
        "SELECT p_queue, 4, 0 FROM gone HAVING count(*) > 0",
    )],
    also: "",
};

/// Verdicts under any token.
pub const SETTLE_WITHOUT_TOKEN: Break = Break {
    name: "messages are settled whatever the token: a stale consumer ends somebody else's claim",
    function: "settle_messages",
    changes: &[("i.token IS NOT NULL AND i.token IS DISTINCT FROM c.token OR ", "")],
    also: "",
};

/// A pop that does not care for leases.
pub const POP_WHATEVER_IS_LEASED: Break = Break {
    name: "a partition is handed out although somebody holds it",
    function: "look_messages",
    changes: &[("CASE WHEN t.until > moment THEN t.until END AS busy", "NULL::timestamptz AS busy")],
    also: "",
};

/// A release that forgets what was acked before it.
pub const RELEASE_THAT_GOES_BACK: Break = Break {
    name: "a release moves the cursor back to where its claim began",
    function: "settle_messages",
    changes: &[("CASE WHEN r.auto THEN r.lo", "CASE WHEN r.auto OR r.given_back THEN r.lo")],
    also: "",
};

/// An ack that goes too far.
pub const ACK_PAST_ITS_CLAIM: Break = Break {
    name: "an ack moves the cursor past its claim, over whatever came meanwhile",
    function: "settle_messages",
    changes: &[("ELSE r.new_cur END,", "WHEN r.new_cur >= r.hi THEN bugle.newest_seq() ELSE r.new_cur END,")],
    also: "",
};

/// Numbers that are taken without the partition's lock, and commits that take their time.
pub const NUMBERS_WITHOUT_THE_LOCK: Break = Break {
    name: "messages are numbered outside of their partition's lock",
    function: "push_messages",
    changes: &[("  ORDER BY i.o;\nEND", "  ORDER BY i.o;\n  PERFORM pg_sleep(random() * 0.01);\nEND")],
    also: "CREATE OR REPLACE FUNCTION bugle.lock_partitions(p_part int[]) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$",
};

impl Break {
    /// Takes the safety out of the functions in the schema of `bugle`. Fails when the text is not there: then this break tests nothing.
    pub async fn apply(&self, bugle: &Bugle) -> anyhow::Result<()> {
        let schema = bugle.schema();
        let definitions: Vec<String> = sqlx::query_scalar(include_str!("functions.sql"))
            .bind(schema.as_str())
            .bind(self.function)
            .fetch_all(bugle.pool())
            .await?;
        let [definition] = &definitions[..] else {
            anyhow::bail!("{} functions are called {}", definitions.len(), self.function)
        };
        let mut broken = definition.clone();
        for (find, put) in self.changes {
            let (find, put) = (schema.place_in(find), schema.place_in(put));
            anyhow::ensure!(broken.matches(&find).count() == 1, "not once in {}: {find}", self.function);
            broken = broken.replace(&find, &put);
        }
        let quick_off = if self.function == "look" { QUICK_LOOKS_REFUSED } else { "" };
        for sql in [schema.place_in(quick_off), schema.place_in(self.also), broken] {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(bugle.pool()).await?;
        }
        Ok(())
    }
}
