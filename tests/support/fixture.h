/* SPDX-License-Identifier: MIT */
/*
 * fixture: archives of ready-made datastores, unpacked by tar(1).
 *
 * None of this goes through sysio.  A failure is one of the machine: it says
 * why and aborts.
 */
#ifndef CAIRN_TESTS_SUPPORT_FIXTURE_H
#define CAIRN_TESTS_SUPPORT_FIXTURE_H

/*
 * Unpack a tar.gz into an existing directory, with the modes of the archive
 * and as belonging to whoever runs the test.
 */
void fixture_unpack(const char *tar, const char *dir);

/*
 * All 65,536 prefix directories of `<store>/.chunks`, 0750, where nothing of
 * the name is there: the archives hold only those with chunks.  Takes its
 * time; cairn takes a missing one for an empty one.
 */
void fixture_make_prefixes(const char *store);

#endif
