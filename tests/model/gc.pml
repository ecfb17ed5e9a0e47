/* SPDX-License-Identifier: MIT */
/*
 * What etc/doc/gc-safety.md claims, for spin: sessions, forgets, verifies and
 * garbage collections, in every order of their steps, each killed anywhere.
 * tests/model/run.sh says with which definitions; a definition M_... takes out
 * one rule, and spin must then find a loss (or a good chunk renamed to .bad).
 *
 * One statement is one system call.  There is one chunk: what becomes of it
 * depends on itself only.  It is lost if the sweep removes it though a snapshot
 * that has its manifest references it, or if a manifest appears when the chunk
 * is gone.  The clock ticks when a session registers and when a mark starts, for
 * these are what times are compared with; margin and slack are 0, the harshest.
 *
 * It is a model of the rules, not of the code, which tests/race holds to them.
 * Left out: threads of one process, power cuts, the cleaner (it removes what no
 * run reads any more), and what only ends a run.
 */
#ifndef SESSIONS
#define SESSIONS 1
#endif
#ifndef FORGETS
#define FORGETS 1
#endif
#ifndef RUNS
#define RUNS 1 /* of each collector, one after the other */
#endif
#ifndef COLLECTORS
#define COLLECTORS 1
#endif
#define NONE 15

byte now = 1;
bit collecting; /* from a start of mark to the end of that sweep */

/* The chunk: a time of 0 is older than all.  Who puts another file in its place
 * gives it another number. */
bit there = 1, bad, listed; /* listed: on the damage list */
byte used, file = 1;
bit removing; /* its prefix lock, exclusively; shared: see touches() */

/*
 * The snapshots: 0 is there from the beginning, each session makes one.  With
 * REUSED the chunk is another old snapshot's, and the name 0 may be used again.
 * A serial makes out of a name a file: path, inode, ctime and UUID.
 */
#ifdef REUSED
#define SNAPSHOTS (SESSIONS + 2)
#define OLD (SESSIONS + 1)
#else
#define SNAPSHOTS (SESSIONS + 1)
#define OLD 0
#endif
bit index[SNAPSHOTS], manifest[SNAPSHOTS], refs[SNAPSHOTS];
byte serial[SNAPSHOTS];
byte held[SNAPSHOTS]; /* by sessions whose base it is */

byte publishing; /* the tree lock, shared */
bit listing;     /* and exclusively */

bit registered[SESSIONS];
byte start[SESSIONS];

inline lock_tree() /* within an atomic step */
{
#ifndef M_I4_NO_TREE_LOCK
	!listing;
	publishing++
#else
	skip
#endif
}

inline unlock_tree()
{
#ifndef M_I4_NO_TREE_LOCK
	publishing--
#else
	skip
#endif
}

/* ---- A session ---- */

inline registers()
{
	atomic {
		now++;
		start[me] = now;
		registered[me] = 1
	}
}

/* Any snapshot that is whole, or none.  Between a look at a name and the lock of
 * the directory this name may come to mean something else: look again (I2). */
inline chooses_base()
{
	if
	:: atomic {
		select(base : 0 .. SNAPSHOTS - 1);
		if
		:: index[base] && manifest[base] -> was = serial[base]
		:: else -> base = NONE
		fi
	   }
	:: skip
	fi;
	if
	:: base != NONE ->
		held[base]++;
		atomic {
			if
			:: index[base] && manifest[base] && serial[base] == was ->
				uses = refs[base]
			:: else ->
				held[base]--;
				base = NONE
			fi
		}
	:: else
	fi
}

/* I3: lowers start if the clock went backwards. */
inline beats()
{
#if defined(STEPS) && !defined(M_I3_NO_BEAT)
	if
	:: now < start[me] -> start[me] = now
	:: else
	fi
#else
	skip
#endif
}

/*
 * A touch or, where nothing is or what is known to be bad, an insert.  It is one
 * step, so that to hold the prefix lock shared is to wait for the exclusive one.
 * So is the beat before it: a session looks at the clock behind the touch as
 * well, and does both again if it was set back.  STEP_BETWEEN shows what is
 * lost without that.
 */
inline touches()
{
#ifdef STEP_BETWEEN
	atomic {
		beats()
	};
#endif
	atomic {
		!removing;
#ifndef STEP_BETWEEN
		beats();
#endif
		if
		:: there && !avoid
		:: else ->
			there = 1;
			bad = 0;
			file++;
			if
			:: avoid -> avoid = 0; listed = 0
			:: else
			fi
		fi;
#ifndef M_I2_HIT_NOT_TOUCHED
		used = now;
#endif
		uses = 1
	}
}

inline may_be_killed()
{
	if
	:: goto ended
	:: skip
	fi
}

proctype Session(byte me)
{
	byte base = NONE, was, slot = me + 1;
	bit uses, avoid, keep = 1, locked;

#ifndef M_I3_REGISTERED_LATE
	registers();
#endif
#ifdef DAMAGED
	avoid = listed;
#endif
	chooses_base();
	if
	:: !uses -> touches()
	:: else /* an entry that is the base's is not touched */
	fi;
#ifdef M_I3_REGISTERED_LATE
	registers();
#endif
#ifdef M_I3_UNREGISTERED_FIRST
	registered[me] = 0;
#endif
	may_be_killed();
	atomic {
		lock_tree();
		locked = 1;
#ifdef REUSED
		if
		:: !index[0] && !manifest[0] -> slot = 0
		:: skip
		fi;
#endif
		index[slot] = 1;
		refs[slot] = uses;
		serial[slot]++
	}
#ifndef M_I2_BASE_NOT_CHECKED
	if
	:: base != NONE && !(index[base] && serial[base] == was) -> keep = 0
	:: else
	fi;
#endif
#if defined(LOST) && !defined(M_I3_REGISTRATION_NOT_CHECKED)
	if
	:: !registered[me] -> keep = 0
	:: else
	fi;
#endif
	/* The damage list is looked at in one step with the manifest: what is
	 * listed behind the look hurts this snapshot as any that was published. */
	atomic {
#ifndef M_I2_DAMAGE_NOT_CHECKED
		if
		:: listed -> keep = 0
		:: else
		fi;
#endif
		if
		:: keep ->
			manifest[slot] = 1;
			assert(there)
		:: index[slot] = 0 /* withdraws */
		:: skip            /* killed: an index without manifest stays */
		fi
	}
ended: /* killed or not: its locks are free, its registration is dead */
	atomic {
		if
		:: locked -> unlock_tree()
		:: else
		fi;
		if
		:: base != NONE -> held[base]--
		:: else
		fi;
		registered[me] = 0;
		start[me] = 0
	}
}

/* ---- Forget or, FOREIGN, a program that takes none of our locks ---- */

proctype Forget()
{
	byte s;

end_nothing_to_forget:
	atomic {
		if
		:: manifest[0] -> s = 0
		:: manifest[1] -> s = 1
#if SNAPSHOTS > 2
		:: manifest[2] -> s = 2
#endif
#if SNAPSHOTS > 3
		:: manifest[3] -> s = 3
#endif
		fi
	}
#ifdef FOREIGN
	manifest[s] = 0;
	index[s] = 0
#else
	atomic {
		lock_tree();
		if
		:: manifest[s] && held[s] == 0 -> manifest[s] = 0
		:: else -> unlock_tree(); goto in_use
		fi
	}
	atomic {
		index[s] = 0;
		unlock_tree()
	}
in_use:
	s = 0
#endif
}

/* ---- Garbage collection ---- */

inline starts_mark()
{
	atomic {
		now++;
		begun = now;
		cutoff = now;
		collecting = 1
	}
}

inline reads_registrations()
{
	do
	:: s < SESSIONS ->
		atomic {
			if
			:: registered[s] && start[s] < oldest -> oldest = start[s]
			:: else
			fi;
			s++
		}
	:: else -> s = 0; break
	od
}

inline lists()
{
#ifndef M_I4_NO_TREE_LOCK
	atomic { publishing == 0 && !listing -> listing = 1 };
#endif
	do
	:: s < SNAPSHOTS ->
		atomic {
			shown[s] = (index[s] -> serial[s] : 0);
			s++
		}
	:: else -> break
	od;
	atomic {
		s = 0;
		listing = 0
	}
}

/* Each file that was shown and not read before. */
inline reads_index_files()
{
	do
	:: s < SNAPSHOTS ->
		atomic {
			if
#ifdef M_I4_KNOWN_BY_PATH
			:: shown[s] && !done[s] ->
#else
			:: shown[s] && done[s] != shown[s] ->
#endif
				if
				:: index[s] && serial[s] == shown[s] ->
					referenced = referenced | refs[s];
					done[s] = shown[s]
				:: !(index[s] && serial[s] == shown[s]) ->
					vanished = 1
#ifdef FAULTS
				:: true ->
#ifdef M_I5_UNREADABLE_PASSED
					done[s] = shown[s]
#else
					goto ended
#endif
#endif
				fi
			:: else
			fi;
			shown[s] = 0;
			s++
		}
	:: else -> s = 0; break
	od
}

inline touches_referenced()
{
	if
	:: referenced && there -> used = now
#ifdef FAULTS
	:: referenced && there -> /* an error */
#ifndef M_I5_FAILED_TOUCH_PASSED
		goto ended
#else
		skip
#endif
#endif
#ifdef IGNORED
	:: referenced && there -> skip /* no error, and no effect */
#endif
	:: !(referenced && there)
	fi;
#if defined(IGNORED) && !defined(M_A1_NO_CANARY)
	if
	:: referenced && there && used < begun -> goto ended
	:: else
	fi
#endif
}

inline looks_and_removes()
{
#ifndef M_I7_NO_PREFIX_LOCK
	atomic { !removing -> removing = 1 };
#endif
	if
	:: there && used < cutoff ->
		/* the look is over, the removal is to come */
		atomic {
			s = 0;
			do
			:: s < SNAPSHOTS ->
				assert(!(manifest[s] && index[s] && refs[s]));
				s++
			:: else -> s = 0; break
			od;
			there = 0
		}
	:: else
	fi;
#ifndef M_I7_NO_PREFIX_LOCK
	removing = 0
#endif
}

proctype Collect()
{
	byte runs = RUNS, begun, cutoff, oldest, s, rounds;
	byte shown[SNAPSHOTS], done[SNAPSHOTS]; /* serials; 0 is none */
	bit referenced, vanished;

again:
	oldest = 255;
#ifdef M_I6_SESSIONS_BEFORE_START
	reads_registrations();
	starts_mark();
#else
	starts_mark();
#ifndef M_I6_SESSIONS_AFTER_MARK
	reads_registrations();
#endif
#endif
round:
	vanished = 0;
	lists();
	reads_index_files();
	rounds++;
	if
#ifndef M_I4_ONE_LISTING
	:: vanished || rounds < 2 -> rounds = 1; goto round
#endif
	:: else
	fi;
	/* The batch is flushed last: no touch comes later than this. */
	touches_referenced();
#ifdef M_I6_SESSIONS_AFTER_MARK
	reads_registrations();
#endif
#ifndef M_I6_NO_SESSIONS
	if
	:: oldest < cutoff -> cutoff = oldest
	:: else
	fi;
#endif
	may_be_killed();
	looks_and_removes();
ended: /* killed or not */
	atomic {
		collecting = 0;
		begun = 0;
		cutoff = 0;
		s = 0;
		rounds = 0;
		referenced = 0;
		do
		:: s < SNAPSHOTS -> shown[s] = 0; done[s] = 0; s++
		:: else -> s = 0; break
		od;
		runs--;
		if
		:: runs > 0 -> goto again
		:: else
		fi
	}
}

/* ---- What else happens ---- */

#ifdef DAMAGED
/* The chunk is bad from the beginning.  Reads take no lock. */
proctype Verify()
{
	byte read;

	atomic {
		if
		:: there && bad -> read = file
		:: else -> goto sound
		fi
	}
#ifndef M_I2_RENAMED_BEFORE_LISTED
	listed = 1;
#endif
	atomic { !removing -> removing = 1 };
	if
#ifdef M_I7_RENAMED_BY_NAME
	:: there ->
#else
	:: there && file == read ->
#endif
		atomic {
			assert(bad);
			there = 0
		}
	:: else
	fi;
	removing = 0;
#ifdef M_I2_RENAMED_BEFORE_LISTED
	listed = 1;
#endif
sound:
	skip
}
#endif

#ifdef LOST
/* A registration is removed by somebody, or a lease of its lock ends. */
proctype Lose()
{
end_nothing_to_lose:
	atomic { registered[0] -> registered[0] = 0 }
}
#endif

#ifdef STEPS
/* The clock is set back, outside of runs (A2), by one tick or more. */
proctype SetBack()
{
	byte n;

	do
	:: n < STEPS ->
end_of_steps:
#ifdef M_A2_STEP_IN_A_RUN
		atomic { now > 1 -> now--; n++ }
#else
		atomic { !collecting && now > 1 -> now--; n++ }
#endif
	:: else -> break
	od
}
#endif

init
{
	byte i;

	atomic {
		index[0] = 1;
		manifest[0] = 1;
		serial[0] = 1;
		index[OLD] = 1;
		manifest[OLD] = 1;
		serial[OLD] = 1;
		refs[OLD] = 1;
		do
		:: i < SESSIONS -> run Session(i); i++
		:: else -> i = 0; break
		od;
		do
		:: i < FORGETS -> run Forget(); i++
		:: else -> i = 0; break
		od;
		do
		:: i < COLLECTORS -> run Collect(); i++
		:: else -> i = 0; break
		od;
#ifdef DAMAGED
		bad = 1;
		do
		:: i < DAMAGED -> run Verify(); i++
		:: else -> i = 0; break
		od;
#endif
#ifdef LOST
		run Lose();
#endif
#ifdef STEPS
		run SetBack();
#endif
	}
}
