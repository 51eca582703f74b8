-- Rows as version 1 knows them: a deployment that runs, one that moves, and a debt.
INSERT INTO berth.workers (id, version, provisioners, alive_until)
VALUES ('00000000-0000-0000-0000-0000000000aa', 'v1', '{static-a,static-b}', now() + interval '1 minute');
INSERT INTO berth.provisioners (name, type, supports, is_default, timeout)
VALUES ('static-a', 'static', '{runtime}', true, '5 minutes'), ('static-b', 'static', '{runtime}', false, '5 minutes');
INSERT INTO berth.organizations (id, name, default_provisioner) VALUES ('00000000-0000-0000-0000-000000000001', 'acme', 'static-b');
INSERT INTO berth.projects (id, organization_id, name, provisioner, slots, annotations)
VALUES ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000001', 'web', 'static-a', 2, '{"team": "blue"}');
INSERT INTO berth.deployments (id, project_id, environment, desired_state, state)
VALUES ('00000000-0000-0000-0000-000000000003', '00000000-0000-0000-0000-000000000002', 'prod', 'running', 'running'),
       ('00000000-0000-0000-0000-000000000004', '00000000-0000-0000-0000-000000000002', 'dev', 'running', 'pending');
INSERT INTO berth.provisioner_resources (id, provisioner, deployment_id, type, desired_phase, args, phase, state, config,
    observed_generation, claimed_generation, fence, leased_by, leased_until)
VALUES ('00000000-0000-0000-0000-000000000005', 'static-a', '00000000-0000-0000-0000-000000000003', 'runtime', 'ready',
        '{"slots": 2}', 'ready', '{"host": "h1"}', '{"host": "http://h1", "audience": "http://h1"}', 1, 1, NULL, NULL, NULL),
       ('00000000-0000-0000-0000-000000000006', 'static-a', '00000000-0000-0000-0000-000000000004', 'runtime', 'absent',
        '{"slots": 1}', 'ready', '{}', '{}', 0, 1, '00000000-0000-0000-0000-0000000000ff',
        '00000000-0000-0000-0000-0000000000aa', now() + interval '1 minute'),
       ('00000000-0000-0000-0000-000000000006', 'static-b', '00000000-0000-0000-0000-000000000004', 'runtime', 'ready',
        '{"slots": 1}', 'unknown', '{}', '{}', 0, 0, NULL, NULL, NULL),
       ('00000000-0000-0000-0000-000000000007', 'static-b', NULL, 'runtime', 'absent',
        '{"slots": 1}', 'unknown', '{}', '{}', 0, 0, NULL, NULL, NULL);
INSERT INTO berth.deleted_resources (id, provisioner) VALUES ('00000000-0000-0000-0000-000000000008', 'static-a');
INSERT INTO berth.events (deployment_id, resource_id, kind, actor)
VALUES ('00000000-0000-0000-0000-000000000003', '00000000-0000-0000-0000-000000000005', 'DeploymentCreated', 'test');
