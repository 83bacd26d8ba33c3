-- The roles, the schemas and who may enter which. Run by the superuser before
-- the folders' migrations, every time: each statement leaves things as they
-- should be, whatever they were. Passwords are set by whoever runs the
-- database, never here.

-- Roles belong to the cluster, and several of its databases may be migrated at
-- once: two of them changing one role end in "tuple concurrently updated". The
-- lock on the shared catalog puts them in line until this transaction ends.
LOCK TABLE pg_catalog.pg_authid IN SHARE ROW EXCLUSIVE MODE;

DO $$
DECLARE
    role text;
    schema text;
BEGIN
    -- The owner of everything. Services never log in as it.
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'muniment_migrate') THEN
        CREATE ROLE muniment_migrate;
    END IF;
    ALTER ROLE muniment_migrate LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
    ALTER ROLE muniment_migrate SET lock_timeout = '30s';

    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO muniment_migrate', current_database());
    REVOKE ALL ON SCHEMA public FROM PUBLIC;

    FOR role, schema IN VALUES
        ('muniment_ledger', 'ledger'),
        ('muniment_signer', 'signer'),
        ('muniment_reconciler', 'reconciler'),
        ('muniment_relay', 'outbox'),
        ('muniment_feed', 'feed')
    LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I', role);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', role);
        EXECUTE format('ALTER ROLE %I SET search_path = %I', role, schema);
        EXECUTE format('ALTER ROLE %I SET timezone = %L', role, 'UTC');
        -- A transaction left open keeps dead rows alive and claims held; a
        -- statement that hangs keeps a caller waiting past any deadline.
        EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = %L', role, '30s');
        EXECUTE format('ALTER ROLE %I SET statement_timeout = %L', role, '30s');
        EXECUTE format('ALTER ROLE %I SET lock_timeout = %L', role, '10s');
        -- Services ask short questions; compiling one takes longer than its answer.
        EXECUTE format('ALTER ROLE %I SET jit = off', role);

        EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I AUTHORIZATION muniment_migrate', schema);
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM PUBLIC', schema);
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', schema, role);
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role);
    END LOOP;
END
$$;

-- New functions are executable by everybody unless their owner says otherwise.
ALTER DEFAULT PRIVILEGES FOR ROLE muniment_migrate REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
