-- Rows of static pools: a host that is used, one that left the configuration, and somebody who waits.
INSERT INTO berth.static_runtimes (provisioner, host, url, audience, data_dir, slots, removed_at)
VALUES ('static-a', 'h1', 'http://h1', 'http://h1', '/mnt/data', 10, NULL),
       ('static-b', 'h2', 'http://h2', 'http://h2', '', 1, now());
INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted, ticket)
VALUES ('00000000-0000-0000-0000-000000000005', 'static-a', 'h1', 2, 2, NULL),
       ('00000000-0000-0000-0000-000000000006', 'static-b', NULL, 0, 1, nextval('berth.static_tickets'));
