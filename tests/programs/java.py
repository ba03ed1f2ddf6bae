"""Java: direct buffers, deflaters and short threads of the JVM, which allocates its native memory with malloc.
"""
NEEDS = ["java", "javac"]


def check(session):
    session.build("Native.java", ["javac", "-d", session.folder, session.source / "java/Native.java"])
    done = session.run(["java", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-cp", session.folder, "Native"])
    session.expect("what Java printed", done.stdout, "buffers 40000 deflated 800 threads 400 strings 1000000\n")
