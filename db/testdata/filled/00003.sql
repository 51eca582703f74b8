-- Rows as version 3 knows them: a pool with room, a full one, a resource that runs, one that grows, and one that waits.
INSERT INTO berth.static_runtimes (provisioner, host, url, audience, data_dir, slots, failed_pings, unhealthy_since, cordoned_at, removed_at)
VALUES ('static-a', 'http://h1:80', 'http://h1', 'http://h1', '/mnt/data', 8, 0, NULL, NULL, NULL),
       ('static-a', 'http://h2:80', 'http://h2', 'http://h2', '/mnt/data', 8, 3, now(), now(), now()),
       ('static-b', 'http://h3:80', 'http://h3', 'http://h3', '/mnt/data', 1, 1, NULL, NULL, NULL);
INSERT INTO berth.static_slots (resource_id, provisioner, host, slots, wanted, ticket)
VALUES ('00000000-0000-0000-0000-000000000005', 'static-a', 'http://h1:80', 2, 2, NULL),
       ('00000000-0000-0000-0000-000000000006', 'static-a', 'http://h1:80', 1, 9, nextval('berth.static_tickets')),
       ('00000000-0000-0000-0000-000000000006', 'static-b', NULL, 0, 1, nextval('berth.static_tickets'));
