# Tests of code that has threads, beside those of label race: etc/check runs
# them under ThreadSanitizer, too.
foreach(t test_store_fs_walk test_archive test_ingest test_ingest_image test_ingest_stream
    test_lockfile test_lockfile_wait test_log test_store_fs_batch
    test_store_fs_insert test_touch test_tree_push test_tree_restore
    test_tree_restore_hurt test_verify test_workers torture_threads)
  set_property(TEST ${t} APPEND PROPERTY LABELS thread)
endforeach()
